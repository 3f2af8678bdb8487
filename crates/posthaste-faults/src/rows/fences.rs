//! Rows about claims that outlive their lease: by tests of their own, by the model, and by killing at each step.

use crate::finding::{Finding, Result};
use crate::programs::{self, Program};
use crate::stage::Stage;

/// Broken variants of the protocol that the model must refute, at least.
const BROKEN_VARIANTS: usize = 6;

/// The same worker claims again what it let run out, and then settles the former claim.
pub(crate) async fn claimed_again(stage: &Stage) -> Result<Vec<Finding>> {
    let suite = &[
        "a_claimer_that_claims_again_is_fenced_from_its_former_claim",
        "an_expired_lease_gives_the_event_to_the_other_and_the_late_settle_changes_nothing",
    ];
    let traps = &["a_worker_that_lost_its_lane", "a_batch_that_its_own_worker_claims_again"];
    let model = &["a_late_settle_changes_nothing", "the_checker_refutes_token_equals"];
    let programs = [
        Program { package: "posthaste", name: "suite_postgres", tests: suite },
        Program { package: "posthaste", name: "suite_sqlite", tests: suite },
        Program { package: "posthaste", name: "traps", tests: traps },
        Program { package: "posthaste", name: "model", tests: model },
    ];
    let how = "claims that are held longer than their lease and claimed again by their own worker, then settled late; fences \
               made of the worker's name or of the attempt are refuted";
    Ok(vec![programs::run(stage, "the same worker claims again", how, &programs).await?])
}

/// Every state that workers, crashes, pauses and answers can lead to.
pub(crate) async fn model(stage: &Stage) -> Result<Vec<Finding>> {
    let programs = ["model", "model_lane"].map(|name| Program { package: "posthaste", name, tests: &[] });
    let how = "every state of deliveries and of lanes is visited; each broken variant must be refuted";
    let finding = programs::run(stage, "the model and its broken variants", how, &programs).await?;
    let refuted = finding.facts.iter().filter(|fact| fact.what == "control").count();
    Ok(vec![finding.fact("broken variants refuted", refuted, refuted >= BROKEN_VARIANTS)])
}

/// At each step between claim and settle.
pub(crate) async fn failpoints(stage: &Stage) -> Result<Vec<Finding>> {
    let program = Program { package: "posthaste", name: "failpoints", tests: &[] };
    let how = "a worker process ends at each point between claim and settle, and another takes over";
    Ok(vec![programs::run(stage, "killed at each step", how, &[program]).await?])
}
