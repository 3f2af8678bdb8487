//! A model of one lane in `key` order: who may claim, send and settle its batches, in every interleaving.
//!
//! Modelled: three batches that each hold one event of the same key, two workers, one lease with its token
//! on the lane. A worker takes the lane when it is free or its lease ran out, and with it every unfinished
//! batch in number order; it claims the next batch, sends, settles, renews, pauses (the lease runs out
//! meanwhile) and crashes. The sink accepts an event, or the worker gives it up: it becomes a dead letter
//! and the key goes on (`skip`). Dead letters are what makes a late send dangerous: without them, whoever
//! sends batch 2 has seen batch 1 accepted, so a late send repeats or continues the order and never breaks
//! it.
//!
//! A send is one step here, and a worker sends only while its lease runs. So the margin an engine keeps
//! before its lease could run out must cover the send itself: a send that starts in time and arrives after
//! a takeover is the fault `SendsAfterExpiry`, seen from the sink.
//!
//! Not modelled: other keys, parked keys and their deliveries (`model.rs` has deliveries), delayed events,
//! changing the number of lanes, and marks: what a batch holds is given.

use stateright::{Checker, HasDiscoveries, Model, Property};

const BATCHES: usize = 3;

const IN_ORDER: &str = "the key's first acceptances come in order";
const ONE_OWNER: &str = "two workers never own the lane at once";
const NONE_STUCK: &str = "an unfinished batch can always be taken over";

/// Which rule, if any, is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Variant {
    /// The design.
    Sound,
    /// Each batch has a lease of its own, so two workers may hold neighbours.
    LeasePerBatch,
    /// Whoever once owned the lane may claim its next batch.
    NextUnchecked,
    /// A worker goes on sending although its lease may have run out.
    SendsAfterExpiry,
    /// A takeover starts with the newest unfinished batch.
    NewestFirst,
    /// A takeover leaves the unfinished batches where they are.
    TakesNothingOver,
    /// The key goes on before the dead letter is committed.
    GoesOnUnsettled,
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    variant: Variant,
    /// How often the lane may be taken. Keeps the space finite.
    takes: u8,
}

#[derive(Clone, Debug, Hash, PartialEq)]
struct State {
    token: Option<u8>,
    expired: bool,
    takes: u8,
    /// The batches claimed so far, by number.
    batches: Vec<Batch>,
    workers: [Worker; 2],
    /// What the sink accepted, each number once, in the order of its first acceptance.
    accepted: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq)]
enum Batch {
    Unfinished,
    Delivered,
    Dead,
}

/// What a worker has in memory.
#[derive(Clone, Debug, Default, Hash, PartialEq)]
struct Worker {
    token: Option<u8>,
    lease_runs: bool,
    to_send: Vec<usize>,
    to_settle: Vec<(usize, Outcome)>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq)]
enum Outcome {
    Delivered,
    Dead,
}

/// Workers are named by their index.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Take(usize),
    ClaimNext(usize),
    Send(usize, Outcome),
    Settle(usize),
    Renew(usize),
    Crash(usize),
    Expire,
}

impl State {
    fn owns(&self, worker: usize) -> bool {
        self.token.is_some() && self.workers[worker].token == self.token
    }

    fn unfinished(&self) -> Vec<usize> {
        (0..self.batches.len()).filter(|&number| self.batches[number] == Batch::Unfinished).collect()
    }

    fn start_lease(&mut self, worker: usize) {
        self.workers[worker].lease_runs = true;
        self.expired &= !self.owns(worker);
    }
}

impl Worker {
    fn has_unsettled_dead(&self) -> bool {
        self.to_settle.iter().any(|&(_, outcome)| outcome == Outcome::Dead)
    }
}

/// The steps.
impl Lane {
    fn take(&self, state: &mut State, worker: usize) {
        state.takes += 1;
        state.token = Some(state.takes);
        let to_send = self.taken_over(state.unfinished());
        state.workers[worker] = Worker { token: state.token, to_send, ..Worker::default() };
        state.start_lease(worker);
    }

    /// The insert of `number + 1`: that alone keeps two claimers from getting the same batch.
    fn claim_next(&self, state: &mut State, worker: usize) {
        state.workers[worker].to_send.push(state.batches.len());
        state.batches.push(Batch::Unfinished);
        state.start_lease(worker);
    }

    fn send(&self, state: &mut State, worker: usize, outcome: Outcome) {
        let number = state.workers[worker].to_send.remove(0);
        state.workers[worker].to_settle.push((number, outcome));
        if outcome == Outcome::Delivered && !state.accepted.contains(&number) {
            state.accepted.push(number);
        }
    }

    /// A worker that finds its token replaced forgets what it had.
    fn settle(&self, state: &mut State, worker: usize) {
        let (number, outcome) = state.workers[worker].to_settle.remove(0);
        if !self.may_settle(state, worker) {
            state.workers[worker] = Worker::default();
            return;
        }
        state.batches[number] = match outcome {
            Outcome::Delivered => Batch::Delivered,
            Outcome::Dead => Batch::Dead,
        };
    }

    fn expire(&self, state: &mut State) {
        state.expired = true;
        state.workers.iter_mut().for_each(|worker| worker.lease_runs = false);
    }
}

/// The rules, and how each variant breaks one.
impl Lane {
    fn may_take(&self, state: &State) -> bool {
        (state.token.is_none() || state.expired) && state.takes < self.takes
    }

    fn taken_over(&self, mut unfinished: Vec<usize>) -> Vec<usize> {
        match self.variant {
            Variant::NewestFirst => unfinished.reverse(),
            Variant::TakesNothingOver => unfinished.clear(),
            _ => {}
        }
        unfinished
    }

    fn may_claim_next(&self, state: &State, worker: usize) -> bool {
        let allowed = match self.variant {
            Variant::LeasePerBatch => true,
            Variant::NextUnchecked => state.workers[worker].token.is_some(),
            _ => state.owns(worker),
        };
        allowed && state.batches.len() < BATCHES
    }

    fn may_send(&self, worker: &Worker) -> bool {
        let in_time = worker.lease_runs || self.variant == Variant::SendsAfterExpiry;
        let settled = !worker.has_unsettled_dead() || self.variant == Variant::GoesOnUnsettled;
        !worker.to_send.is_empty() && in_time && settled
    }

    fn may_settle(&self, state: &State, worker: usize) -> bool {
        state.owns(worker) || self.variant == Variant::LeasePerBatch
    }
}

/// What may happen next.
impl Lane {
    fn worker_actions(&self, state: &State, index: usize, actions: &mut Vec<Action>) {
        let worker = &state.workers[index];
        if self.may_take(state) {
            actions.push(Action::Take(index));
        }
        if self.may_claim_next(state, index) {
            actions.push(Action::ClaimNext(index));
        }
        if self.may_send(worker) {
            actions.extend([Outcome::Delivered, Outcome::Dead].map(|outcome| Action::Send(index, outcome)));
        }
        if !worker.to_settle.is_empty() {
            actions.push(Action::Settle(index));
        }
        if state.owns(index) {
            actions.push(Action::Renew(index));
        }
        actions.push(Action::Crash(index));
    }
}

impl Model for Lane {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (batches, accepted) = (Vec::new(), Vec::new());
        vec![State { token: None, expired: false, takes: 0, batches, workers: Default::default(), accepted }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        (0..state.workers.len()).for_each(|worker| self.worker_actions(state, worker, actions));
        if state.token.is_some() {
            actions.push(Action::Expire);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        match action {
            Action::Take(worker) => self.take(&mut next, worker),
            Action::ClaimNext(worker) => self.claim_next(&mut next, worker),
            Action::Send(worker, outcome) => self.send(&mut next, worker, outcome),
            Action::Settle(worker) => self.settle(&mut next, worker),
            Action::Renew(worker) => next.start_lease(worker),
            Action::Crash(worker) => next.workers[worker] = Worker::default(),
            Action::Expire => self.expire(&mut next),
        }
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(IN_ORDER, |_, state: &State| state.accepted.is_sorted()),
            Property::always(ONE_OWNER, |_, state: &State| {
                !state.workers.iter().all(|worker| worker.lease_runs)
            }),
            Property::always(NONE_STUCK, none_stuck),
            Property::sometimes("everything is delivered", |_, state: &State| {
                state.batches == [Batch::Delivered; BATCHES]
            }),
            Property::sometimes("the key goes on after a dead letter", |_, state: &State| {
                state.batches.first() == Some(&Batch::Dead) && state.accepted == [1, 2]
            }),
            Property::sometimes("a later owner has several batches to send", |_, state: &State| {
                state.takes > 1 && state.workers.iter().any(|worker| worker.to_send.len() > 1)
            }),
        ]
    }
}

/// Whoever takes the lane next has every unfinished batch in hand.
fn none_stuck(model: &Lane, state: &State) -> bool {
    let mut next = state.clone();
    model.take(&mut next, 0);
    state.unfinished().iter().all(|number| next.workers[0].to_send.contains(number))
}

fn assert_refuted(variant: Variant, properties: &[&'static str]) {
    let all_found = HasDiscoveries::AllOf(properties.iter().copied().collect());
    let checker = Lane { variant, takes: 4 }.checker().finish_when(all_found).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("control {variant:?}: refuted within {states} states, depth {depth}");
    for property in properties {
        assert!(checker.discovery(property).is_some(), "{variant:?} survived: {property}");
    }
}

#[test]
fn first_acceptances_of_a_key_are_in_order_when_the_lane_has_one_owner() {
    let checker = Lane { variant: Variant::Sound, takes: 4 }.checker().spawn_bfs().join();
    println!("Sound: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

#[test]
fn the_checker_refutes_a_lease_per_batch() {
    assert_refuted(Variant::LeasePerBatch, &[IN_ORDER, ONE_OWNER]);
}

#[test]
fn the_checker_refutes_claiming_the_next_batch_without_the_lane_token() {
    assert_refuted(Variant::NextUnchecked, &[IN_ORDER, ONE_OWNER]);
}

#[test]
fn the_checker_refutes_sending_after_the_lease_ran_out() {
    assert_refuted(Variant::SendsAfterExpiry, &[IN_ORDER]);
}

#[test]
fn the_checker_refutes_a_takeover_that_starts_with_the_newest_batch() {
    assert_refuted(Variant::NewestFirst, &[IN_ORDER]);
}

#[test]
fn the_checker_refutes_a_takeover_that_leaves_unfinished_batches() {
    assert_refuted(Variant::TakesNothingOver, &[NONE_STUCK]);
}

#[test]
fn the_checker_refutes_going_on_before_the_dead_letter_is_settled() {
    assert_refuted(Variant::GoesOnUnsettled, &[IN_ORDER]);
}
