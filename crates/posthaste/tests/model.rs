//! A model of claim, send, settle, renew, expire and crash, checked in every interleaving.
//!
//! Modelled: the deliveries of one subscription, two workers, a sink that may answer anything, and a person
//! who edits and retries dead letters. Time is one flag per lease that may be set at any moment, so a pause
//! of any length is simply a settle that comes late. A worker may hold an old and a new claim of the same
//! event, a settle may be applied without its reply being heard and be written again, and a send may come
//! after the lease ran out.
//!
//! Not modelled: SQL and its isolation (a claim and a settle are one atomic step each), backoff, the log
//! with its batches and marks, claims of several rows under one token and how a row that kills its worker
//! is isolated, and order (`model_lane.rs` has that). The search is exhaustive within small bounds: two
//! attempts, a few claims, one edit.
//!
//! A check that cannot fail proves nothing. Every `always` property is refuted by at least one variant that
//! leaves out a rule; each variant is a mistake that is easy to make.

use stateright::{Checker, HasDiscoveries, Model, Property};

const MAX_ATTEMPTS: u8 = 2;

const FENCED: &str = "a write by anybody but the latest holder changes nothing";
const ONE_LEASE: &str = "two running leases never meet on one event";
const TERMINAL: &str = "a delivered event stays delivered";
const NO_LOSS: &str = "an event is gone only if the sink accepted what it last said";
const LIMIT: &str = "attempts never exceed the limit";
const OWN_FAULT: &str = "an event dies only of a rejection or of its own failures";
const NONE_STUCK: &str = "a lease that ran out never leaves its event stuck";

/// Which rule, if any, the store leaves out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Variant {
    /// The design: a new token at every claim, checked by every write together with the status.
    Sound,
    /// Writes go by event id alone.
    NoToken,
    /// `locked_by` serves as the token.
    TokenIsWorker,
    /// The attempt number serves as the token.
    TokenIsAttempt,
    /// Writes check that the delivery is processing, not by whom.
    OnlyStatusChecked,
    /// Every write is guarded except the one that settles a retry.
    UnguardedRetry,
    /// A claim passes over deliveries at the attempt limit.
    LimitPassedOver,
    /// A claim takes deliveries at the attempt limit once more.
    LimitIgnored,
    /// An unavailable sink costs an attempt.
    AttemptKept,
}

#[derive(Clone, Copy, Debug)]
struct Deliveries {
    variant: Variant,
    events: usize,
    /// How many claims one run may make, over all events. Keeps the space finite.
    claims: u8,
    /// How often a person may edit and retry one event.
    edits: u8,
}

#[derive(Clone, Debug, Hash, PartialEq)]
struct State {
    deliveries: Vec<Delivery>,
    /// What the workers have in memory.
    claims: Vec<Claim>,
    claims_made: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq)]
struct Delivery {
    row: Row,
    history: History,
}

/// What the store keeps.
#[derive(Clone, Copy, Debug, Hash, PartialEq)]
struct Row {
    status: Status,
    attempts: u8,
    token: Option<u8>,
    expired: bool,
    /// Which version of the event this is; editing a dead letter makes a new one.
    edition: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq)]
enum Status {
    Pending,
    Processing,
    /// Delivered: the row no longer exists.
    Gone,
    Dead,
}

/// What really happened. Nobody in the model reads it, only the properties do.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq)]
struct History {
    /// The latest claim, until it is settled.
    holder: Option<u8>,
    /// The sink accepted the current edition.
    accepted: bool,
    was_gone: bool,
    late_write: bool,
    rejected: bool,
    /// Retries, and leases that ran out.
    failures: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq)]
struct Claim {
    id: u8,
    event: usize,
    worker: u8,
    token: u8,
    edition: u8,
    lease_runs: bool,
    /// What is left to settle, once the sink has answered.
    outcome: Option<Outcome>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq)]
enum Outcome {
    Delivered,
    Retry,
    Dead,
    Unavailable,
}

/// What the sink does with a send.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Accepts,
    /// The sink has the event, but the worker never learns it.
    AcceptsUnheard,
    Fails,
    Rejects,
    IsUnavailable,
}

/// Claims are named by their id.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Claim {
        worker: u8,
        event: usize,
    },
    Send {
        claim: u8,
        answer: Answer,
    },
    /// Unless `heard`, the reply is lost and the worker will settle again.
    Settle {
        claim: u8,
        heard: bool,
    },
    Renew {
        claim: u8,
    },
    Expire {
        event: usize,
    },
    Crash {
        worker: u8,
    },
    /// A person edits a dead letter and retries it: attempts start again at 0.
    EditAndRetry {
        event: usize,
    },
}

impl Row {
    fn new() -> Self {
        Self { status: Status::Pending, attempts: 0, token: None, expired: false, edition: 0 }
    }

    fn lease_ran_out(&self) -> bool {
        self.status == Status::Processing && self.expired
    }

    fn leave_processing(&mut self, status: Status) {
        *self = Self { status, token: None, expired: false, ..*self };
    }
}

impl History {
    /// Counts no further than matters, so that a fault which repeats itself stays finite.
    fn fail(&mut self) {
        self.failures = MAX_ATTEMPTS.min(self.failures + 1);
    }
}

impl Answer {
    const ALL: [Self; 5] =
        [Self::Accepts, Self::AcceptsUnheard, Self::Fails, Self::Rejects, Self::IsUnavailable];

    fn accepts(self) -> bool {
        matches!(self, Self::Accepts | Self::AcceptsUnheard)
    }

    fn outcome(self) -> Outcome {
        match self {
            Self::Accepts => Outcome::Delivered,
            Self::AcceptsUnheard | Self::Fails => Outcome::Retry,
            Self::Rejects => Outcome::Dead,
            Self::IsUnavailable => Outcome::Unavailable,
        }
    }
}

impl State {
    fn claim(&self, id: u8) -> Claim {
        *self.claims.iter().find(|claim| claim.id == id).expect("actions name only claims in memory")
    }

    fn update(&mut self, id: u8, change: impl FnOnce(&mut Claim)) {
        change(
            self.claims.iter_mut().find(|claim| claim.id == id).expect("actions name only claims in memory"),
        );
    }

    fn claims_of(&self, event: usize) -> impl Iterator<Item = &Claim> {
        self.claims.iter().filter(move |claim| claim.event == event)
    }
}

/// The steps.
impl Deliveries {
    fn claim(&self, state: &mut State, worker: u8, event: usize) {
        let Delivery { row, history } = &mut state.deliveries[event];
        if row.lease_ran_out() {
            history.fail();
        }
        if self.buries(row) {
            row.leave_processing(Status::Dead);
            history.holder = None;
            return;
        }
        let id = state.claims_made;
        let attempts = row.attempts + 1;
        let token = self.token(id, worker, attempts);
        *row = Row { status: Status::Processing, attempts, token: Some(token), expired: false, ..*row };
        history.holder = Some(id);
        let edition = row.edition;
        state.claims.push(Claim { id, event, worker, token, edition, lease_runs: true, outcome: None });
        state.claims_made += 1;
    }

    fn send(&self, state: &mut State, id: u8, answer: Answer) {
        let Claim { event, edition, .. } = state.claim(id);
        let Delivery { row, history } = &mut state.deliveries[event];
        history.accepted |= answer.accepts() && edition == row.edition;
        state.update(id, |claim| claim.outcome = Some(answer.outcome()));
    }

    fn settle(&self, state: &mut State, id: u8, heard: bool) {
        let claim = state.claim(id);
        let outcome = claim.outcome.expect("only an answered claim is settled");
        let delivery = &mut state.deliveries[claim.event];
        let unguarded = self.variant == Variant::UnguardedRetry && outcome == Outcome::Retry;
        if unguarded || self.fence_opens(&delivery.row, &claim) {
            write(delivery, &claim, |row| self.apply(row, outcome));
            remember(delivery, outcome);
        }
        state.update(id, |claim| claim.lease_runs = false);
        state.claims.retain(|claim| claim.id != id || !heard);
    }

    fn apply(&self, row: &mut Row, outcome: Outcome) {
        match outcome {
            Outcome::Delivered => row.leave_processing(Status::Gone),
            Outcome::Retry if row.attempts < MAX_ATTEMPTS => row.leave_processing(Status::Pending),
            Outcome::Retry | Outcome::Dead => row.leave_processing(Status::Dead),
            Outcome::Unavailable => {
                let given_back = u8::from(self.variant != Variant::AttemptKept);
                row.attempts = row.attempts.saturating_sub(given_back);
                row.leave_processing(Status::Pending);
            }
        }
    }

    fn renew(&self, state: &mut State, id: u8) {
        let claim = state.claim(id);
        let delivery = &mut state.deliveries[claim.event];
        if self.fence_opens(&delivery.row, &claim) {
            write(delivery, &claim, |row| row.expired = false);
            state.update(id, |claim| claim.lease_runs = true);
        }
    }

    fn expire(&self, state: &mut State, event: usize) {
        state.deliveries[event].row.expired = true;
        let claims = state.claims.iter_mut().filter(|claim| claim.event == event);
        claims.for_each(|claim| claim.lease_runs = false);
    }

    fn edit_and_retry(&self, state: &mut State, event: usize) {
        let Delivery { row, history } = &mut state.deliveries[event];
        *row = Row { edition: row.edition + 1, ..Row::new() };
        *history = History { accepted: false, rejected: false, failures: 0, ..*history };
    }
}

/// The rules, and how each variant breaks one.
impl Deliveries {
    fn token(&self, id: u8, worker: u8, attempt: u8) -> u8 {
        match self.variant {
            Variant::TokenIsWorker => worker,
            Variant::TokenIsAttempt => attempt,
            _ => id,
        }
    }

    fn fence_opens(&self, row: &Row, claim: &Claim) -> bool {
        let processing = row.status == Status::Processing;
        match self.variant {
            Variant::NoToken => true,
            Variant::OnlyStatusChecked => processing,
            _ => processing && row.token == Some(claim.token),
        }
    }

    fn claimable(&self, row: &Row) -> bool {
        let passed_over = self.variant == Variant::LimitPassedOver && row.attempts >= MAX_ATTEMPTS;
        (row.status == Status::Pending || row.lease_ran_out()) && !passed_over
    }

    /// A claim that meets a delivery at the limit makes it dead.
    fn buries(&self, row: &Row) -> bool {
        row.attempts >= MAX_ATTEMPTS && self.variant != Variant::LimitIgnored
    }
}

/// A write that passed the fence. What it does in somebody else's name is recorded.
fn write(delivery: &mut Delivery, claim: &Claim, change: impl FnOnce(&mut Row)) {
    let before = delivery.row;
    change(&mut delivery.row);
    let late = delivery.history.holder != Some(claim.id);
    delivery.history.late_write |= late && delivery.row != before;
}

fn remember(Delivery { history, .. }: &mut Delivery, outcome: Outcome) {
    history.holder = None;
    match outcome {
        Outcome::Delivered => history.was_gone = true,
        Outcome::Retry => history.fail(),
        Outcome::Dead => history.rejected = true,
        Outcome::Unavailable => {}
    }
}

/// What may happen next.
impl Deliveries {
    fn store_actions(&self, state: &State, event: usize, actions: &mut Vec<Action>) {
        let row = &state.deliveries[event].row;
        if self.claimable(row) && (self.buries(row) || state.claims_made < self.claims) {
            // The workers are alike, so let the first claim be the first worker's.
            let workers = if state.claims_made == 0 { 0..1 } else { 0..2 };
            actions.extend(workers.map(|worker| Action::Claim { worker, event }));
        }
        if row.status == Status::Processing && !row.expired {
            actions.push(Action::Expire { event });
        }
        if row.status == Status::Dead && row.edition < self.edits {
            actions.push(Action::EditAndRetry { event });
        }
    }

    fn claim_actions(&self, &Claim { id: claim, outcome, .. }: &Claim, actions: &mut Vec<Action>) {
        match outcome {
            None => actions.extend(Answer::ALL.map(|answer| Action::Send { claim, answer })),
            Some(_) => actions.extend([true, false].map(|heard| Action::Settle { claim, heard })),
        }
        actions.push(Action::Renew { claim });
    }
}

impl Model for Deliveries {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let fresh = Delivery { row: Row::new(), history: History::default() };
        vec![State { deliveries: vec![fresh; self.events], claims: Vec::new(), claims_made: 0 }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        (0..self.events).for_each(|event| self.store_actions(state, event, actions));
        state.claims.iter().for_each(|claim| self.claim_actions(claim, actions));
        actions.extend([0, 1].map(|worker| Action::Crash { worker }));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        match action {
            Action::Claim { worker, event } => self.claim(&mut next, worker, event),
            Action::Send { claim, answer } => self.send(&mut next, claim, answer),
            Action::Settle { claim, heard } => self.settle(&mut next, claim, heard),
            Action::Renew { claim } => self.renew(&mut next, claim),
            Action::Expire { event } => self.expire(&mut next, event),
            Action::Crash { worker } => next.claims.retain(|claim| claim.worker != worker),
            Action::EditAndRetry { event } => self.edit_and_retry(&mut next, event),
        }
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(FENCED, |_, state| each(state, |_, history| !history.late_write)),
            Property::always(ONE_LEASE, |model, state| {
                (0..model.events).all(|event| one_lease(state, event))
            }),
            Property::always(TERMINAL, |_, state| {
                each(state, |row, history| !history.was_gone || row.status == Status::Gone)
            }),
            Property::always(NO_LOSS, |_, state| {
                each(state, |row, history| row.status != Status::Gone || history.accepted)
            }),
            Property::always(LIMIT, |_, state| each(state, |row, _| row.attempts <= MAX_ATTEMPTS)),
            Property::always(OWN_FAULT, |_, state| each(state, died_of_its_own)),
            Property::always(NONE_STUCK, none_stuck),
            Property::sometimes("an event is delivered", |_, state| any(state, Status::Gone)),
            Property::sometimes("an event is dead", |_, state| any(state, Status::Dead)),
            Property::sometimes("an edited event is delivered", |_, state| {
                !each(state, |row, _| row.edition == 0 || row.status != Status::Gone)
            }),
            Property::sometimes("a worker holds an old and a new claim of one event", old_and_new_claim),
        ]
    }
}

fn each(state: &State, holds: impl Fn(&Row, &History) -> bool) -> bool {
    state.deliveries.iter().all(|delivery| holds(&delivery.row, &delivery.history))
}

fn any(state: &State, status: Status) -> bool {
    state.deliveries.iter().any(|delivery| delivery.row.status == status)
}

fn one_lease(state: &State, event: usize) -> bool {
    state.claims_of(event).filter(|claim| claim.lease_runs).count() <= 1
}

fn died_of_its_own(row: &Row, history: &History) -> bool {
    row.status != Status::Dead || history.rejected || history.failures == MAX_ATTEMPTS
}

/// Even if every worker forgot everything, the next claim must move a delivery whose lease ran out. The bound
/// on claims is the model's, not the store's, so it is lifted here.
fn none_stuck(model: &Deliveries, state: &State) -> bool {
    let unbounded = Deliveries { claims: u8::MAX, ..*model };
    let deserted = State { claims: Vec::new(), ..state.clone() };
    let moves = |event: usize| {
        let now = &state.deliveries[event];
        unbounded.next_states(&deserted).iter().any(|next| next.deliveries[event] != *now)
    };
    (0..model.events).all(|event| !state.deliveries[event].row.lease_ran_out() || moves(event))
}

fn old_and_new_claim(_: &Deliveries, state: &State) -> bool {
    let twice = |old: &Claim| {
        state.claims_of(old.event).any(|new| new.id > old.id && new.worker == old.worker && new.lease_runs)
    };
    state.claims.iter().any(twice)
}

/// One event, deep enough for every refutation below.
fn one_event(variant: Variant) -> Deliveries {
    Deliveries { variant, events: 1, claims: 4, edits: 1 }
}

fn assert_holds(model: Deliveries) {
    let checker = model.checker().spawn_bfs().join();
    println!("{model:?}: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

fn assert_refuted(variant: Variant, properties: &[&'static str]) {
    let all_found = HasDiscoveries::AllOf(properties.iter().copied().collect());
    let checker = one_event(variant).checker().finish_when(all_found).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("control {variant:?}: refuted within {states} states, depth {depth}");
    for property in properties {
        assert!(checker.discovery(property).is_some(), "{variant:?} survived: {property}");
    }
}

#[test]
fn a_late_settle_changes_nothing_when_the_token_is_new_at_every_claim() {
    assert_holds(one_event(Variant::Sound));
}

#[test]
fn two_events_side_by_side_keep_every_promise() {
    assert_holds(Deliveries { variant: Variant::Sound, events: 2, claims: 3, edits: 1 });
}

#[test]
fn the_checker_refutes_writes_without_a_token() {
    assert_refuted(Variant::NoToken, &[FENCED, ONE_LEASE, TERMINAL, NO_LOSS]);
}

#[test]
fn the_checker_refutes_token_equals_worker() {
    assert_refuted(Variant::TokenIsWorker, &[FENCED, ONE_LEASE, NO_LOSS]);
}

#[test]
fn the_checker_refutes_token_equals_attempt() {
    assert_refuted(Variant::TokenIsAttempt, &[FENCED, ONE_LEASE, NO_LOSS]);
}

#[test]
fn the_checker_refutes_a_settle_that_checks_only_the_status() {
    assert_refuted(Variant::OnlyStatusChecked, &[FENCED, ONE_LEASE, NO_LOSS]);
}

#[test]
fn the_checker_refutes_a_retry_without_a_guard() {
    assert_refuted(Variant::UnguardedRetry, &[FENCED, TERMINAL]);
}

#[test]
fn the_checker_refutes_passing_over_deliveries_at_the_attempt_limit() {
    assert_refuted(Variant::LimitPassedOver, &[NONE_STUCK]);
}

#[test]
fn the_checker_refutes_claiming_past_the_attempt_limit() {
    assert_refuted(Variant::LimitIgnored, &[LIMIT]);
}

#[test]
fn the_checker_refutes_an_outage_that_costs_attempts() {
    assert_refuted(Variant::AttemptKept, &[OWN_FAULT]);
}
