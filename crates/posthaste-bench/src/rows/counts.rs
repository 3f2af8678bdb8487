//! What an event costs in bytes, rows, statements and pages: the same on every machine.

use posthaste::ClaimBy;
use sqlx::PgPool;

use crate::bench::Bench;
use crate::cluster::{checkpoint, dead_rows, forget_statements, statements, wal_position};
use crate::measure::{Figure, Result, Role};
use crate::ours;
use crate::peers::{hand, pgq};

/// The figures of this row, all about one load and one drain.
struct Counts {
    inserted: Figure,
    delivered: Figure,
    both: Figure,
    dead: Figure,
    statements: Figure,
    pages: Figure,
}

pub(crate) async fn counts(bench: &Bench) -> Result<Vec<Figure>> {
    // Not fewer: what a checkpoint costs at the beginning must not count.
    let count = if bench.quick { 200_000 } else { 1_000_000 };
    let of = format!("{count} events of 210 bytes, loaded by thousands, delivered by 500");
    let mut counts = Counts {
        inserted: Figure::counted("WAL insert", format!("WAL of enqueuing one event; {of}"), "B"),
        delivered: Figure::counted("WAL deliver", format!("WAL of delivering one event; {of}"), "B").demand(
            "posthaste",
            None,
            5.0,
        ),
        both: Figure::counted("WAL", format!("WAL of one event in all; {of}"), "B").demand(
            "posthaste",
            None,
            450.0,
        ),
        dead: Figure::counted("dead rows", format!("Dead rows left by {of}"), "rows").demand(
            "posthaste",
            None,
            1000.0,
        ),
        statements: Figure::counted("statements", "Statements per batch of 500, delivering", "statements")
            .demand("posthaste", None, 4.0),
        pages: Figure::counted("pages", "Pages looked at per event, delivering", "pages").demand(
            "posthaste",
            None,
            1.0,
        ),
    };
    counts.ours(bench, "posthaste", ClaimBy::Batch, count).await?;
    counts.ours(bench, "posthaste by event", ClaimBy::Event, count).await?;
    // Nothing is asked in comparison with peers.
    if !bench.quick {
        counts.peers(bench, 200_000).await?;
    }
    let Counts { inserted, delivered, both, dead, statements, pages } = counts;
    Ok(vec![inserted, delivered, both, dead, statements, pages])
}

impl Counts {
    async fn ours(&mut self, bench: &Bench, name: &str, claim_by: ClaimBy, count: u64) -> Result<()> {
        let (pool, posthaste) = ours::create(&bench.cluster, "counts").await?;
        // It comes when it likes, and is in nobody's number.
        sqlx::query("alter table posthaste.events set (autovacuum_enabled = false)").execute(&pool).await?;
        let start = begin(&pool).await?;
        ours::load(&pool, &posthaste, count).await?;
        let loaded = wal_position(&pool).await?;
        forget_statements(&pool).await?;
        ours::drain(&posthaste, ours::subscription("counts", claim_by)?, count).await?;
        let cost = statements(&pool).await?;
        let batches = (count as f64 / f64::from(ours::BATCH)).ceil();
        self.statements.add(name, Role::Ours, cost.calls / batches);
        self.pages.add(name, Role::Ours, cost.buffers / count as f64);
        self.wal(name, Role::Ours, [start, loaded, wal_position(&pool).await?], count);
        self.dead.add(name, Role::Ours, dead_rows(&pool).await?);
        Ok(())
    }

    async fn peers(&mut self, bench: &Bench, count: u64) -> Result<()> {
        self.hand(bench, count).await?;
        if let Err(error) = self.pgq(bench, count).await {
            self.both.skip("PgQ", error.to_string());
        }
        self.programs(bench, count).await
    }

    async fn hand(&mut self, bench: &Bench, count: u64) -> Result<()> {
        let name = "SKIP LOCKED table";
        let pool = bench.cluster.database("counts_hand", 8).await?;
        hand::create(&pool).await?;
        sqlx::query("alter table outbox set (autovacuum_enabled = false)").execute(&pool).await?;
        let start = begin(&pool).await?;
        hand::load(&pool, count).await?;
        let loaded = wal_position(&pool).await?;
        forget_statements(&pool).await?;
        hand::drain(&pool, count).await?;
        let cost = statements(&pool).await?;
        self.pages.add(name, Role::Peer, cost.buffers / count as f64);
        self.wal(name, Role::Peer, [start, loaded, wal_position(&pool).await?], count);
        self.dead.add(name, Role::Peer, dead_rows(&pool).await?);
        Ok(())
    }

    async fn pgq(&mut self, bench: &Bench, count: u64) -> Result<()> {
        let pool = bench.cluster.database("counts_pgq", 2).await?;
        pgq::create(&pool).await?;
        let start = begin(&pool).await?;
        pgq::load(&pool, count).await?;
        let loaded = wal_position(&pool).await?;
        forget_statements(&pool).await?;
        pgq::drain(&pool, count).await?;
        let cost = statements(&pool).await?;
        self.pages.add("PgQ", Role::Peer, cost.buffers / count as f64);
        self.wal("PgQ", Role::Peer, [start, loaded, wal_position(&pool).await?], count);
        self.dead.add("PgQ", Role::Peer, dead_rows(&pool).await?);
        Ok(())
    }

    async fn programs(&mut self, bench: &Bench, count: u64) -> Result<()> {
        for program in &bench.programs {
            let pool = bench.cluster.database("counts_peer", 2).await?;
            let url = bench.cluster.url_of("counts_peer")?;
            let start = begin(&pool).await?;
            let ran = async {
                program.run("load", &url, &[count]).await?;
                let loaded = wal_position(&pool).await?;
                program.run("drain", &url, &[count]).await?;
                Result::Ok(loaded)
            };
            match ran.await {
                Ok(loaded) => {
                    self.wal(program.name, Role::Peer, [start, loaded, wal_position(&pool).await?], count);
                    self.dead.add(program.name, Role::Peer, dead_rows(&pool).await?);
                }
                Err(error) => self.both.skip(program.name, error.to_string()),
            }
        }
        Ok(())
    }

    /// From positions before the load, before the drain and after it.
    fn wal(&mut self, name: &str, role: Role, [start, loaded, end]: [f64; 3], count: u64) {
        let each = |bytes: f64| bytes / count as f64;
        self.inserted.add(name, role, each(loaded - start));
        self.delivered.add(name, role, each(end - loaded));
        self.both.add(name, role, each(end - start));
    }
}

async fn begin(pool: &PgPool) -> Result<f64> {
    checkpoint(pool).await?;
    wal_position(pool).await
}
