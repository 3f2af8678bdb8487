//! The roles that `migrate` creates where it may, and what an administrator runs where it may not.

use super::Pool;

/// What the roles are called after the schema's name.
const ROLES: [&str; 3] = ["producer", "relay", "viewer"];

/// Which of them are not there. SQLite has none.
pub(super) async fn missing(pool: &Pool, schema: &str) -> sqlx::Result<Vec<String>> {
    let Pool::Postgres(pool) = pool else { return Ok(Vec::new()) };
    let names = ROLES.map(|role| format!("{schema}_{role}"));
    // In a transaction and not prepared: a pooler may stand in between.
    let mut tx = pool.begin().await?;
    sqlx::query_scalar(
        "select name from unnest($1::text[]) as name where to_regrole(name) is null order by name",
    )
    .bind(&names[..])
    .persistent(false)
    .fetch_all(&mut *tx)
    .await
}

/// The SQL for an administrator; the next migrate gives the rights.
pub(crate) fn creating(roles: &[String]) -> String {
    let statements: Vec<String> = roles.iter().map(|role| format!("create role {role} nologin;")).collect();
    statements.join(" ")
}
