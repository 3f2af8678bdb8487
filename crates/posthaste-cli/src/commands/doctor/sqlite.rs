//! Questions to SQLite.

use sqlx::SqlitePool;

use super::finding::Finding;

/// Asks everything. A question that fails is a finding itself.
pub(crate) async fn examine(pool: &SqlitePool) -> Vec<Finding> {
    let mut findings =
        vec![journal(pool).await, durability(pool).await, file(pool).await, version(pool).await];
    findings.push(integrity(pool).await);
    findings
}

async fn text(pool: &SqlitePool, sql: &'static str) -> Result<String, String> {
    sqlx::query_scalar(sql).fetch_one(pool).await.map_err(|error| error.to_string())
}

async fn number(pool: &SqlitePool, sql: &'static str) -> Result<i64, String> {
    sqlx::query_scalar(sql).fetch_one(pool).await.map_err(|error| error.to_string())
}

fn unknown(check: &str, error: &str) -> Finding {
    Finding::warning(check, format!("could not be found out: {error}"), "run it again")
}

async fn journal(pool: &SqlitePool) -> Finding {
    let name = "journal mode";
    match text(pool, "pragma journal_mode").await {
        Ok(mode) if mode == "wal" => {
            Finding::good(name, "write-ahead log: readers and the writer do not wait for each other")
        }
        Ok(mode) => Finding::warning(
            name,
            format!("`{mode}`: readers and the writer wait for each other"),
            "run posthaste migrate",
        ),
        Err(error) => unknown(name, &error),
    }
}

async fn durability(pool: &SqlitePool) -> Finding {
    let name = "durability";
    match number(pool, "pragma synchronous").await {
        Ok(2..) => Finding::good(name, "a commit survives a power failure"),
        Ok(_) => Finding::bad(
            name,
            "a power failure may forget commits",
            "open the database with synchronous = full",
        ),
        Err(error) => unknown(name, &error),
    }
}

async fn file(pool: &SqlitePool) -> Finding {
    let name = "size";
    let pages =
        number(pool, "select page_count * page_size from pragma_page_count(), pragma_page_size()").await;
    let free =
        number(pool, "select freelist_count * page_size from pragma_freelist_count(), pragma_page_size()")
            .await;
    match (pages, free) {
        (Ok(bytes), Ok(free)) if free > 64 * 1024 * 1024 && free > bytes / 2 => Finding::warning(
            name,
            format!("{} MiB, more than half of it unused", bytes / (1024 * 1024)),
            "run VACUUM when nobody writes",
        ),
        (Ok(bytes), Ok(_)) => Finding::good(name, format!("{} KiB", bytes / 1024)),
        (Err(error), _) | (_, Err(error)) => unknown(name, &error),
    }
}

async fn version(pool: &SqlitePool) -> Finding {
    match text(pool, "select sqlite_version()").await {
        Ok(version) => Finding::good("version", format!("SQLite {version}")),
        Err(error) => unknown("version", &error),
    }
}

async fn integrity(pool: &SqlitePool) -> Finding {
    let name = "integrity";
    match text(pool, "pragma quick_check(1)").await {
        Ok(answer) if answer == "ok" => Finding::good(name, "the file is sound"),
        Ok(problem) => {
            Finding::bad(name, problem, "stop all writers, copy the file, and restore from a backup")
        }
        Err(error) => unknown(name, &error),
    }
}
