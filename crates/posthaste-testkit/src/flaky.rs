//! A sink that fails as a test wants it to.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Event, Handler, Outcome, Page, Sink};
use tokio::sync::watch;

use crate::sinks::{Accepting, Counts, FailedKeys, OneByOne, hand_over};

/// What becomes of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// This outcome, without asking what it stands around.
    Outcome(Outcome),
    /// A panic with these words.
    Panic(String),
    /// No answer until [`Flaky::release`]; then as if nothing had been.
    Hang,
}

type Rule = dyn Fn(&Event, u32) -> Option<Fate> + Send + Sync;

/// A sink and a handler around another one, which fails by rules and by switches. The first rule that has an answer
/// decides; without one, the event is passed on. Cheap to clone; all clones share counts and switches.
///
/// Events are passed on one at a time. What follows a failed event of its key within a page is left unmarked, as order
/// demands.
#[derive(Clone)]
pub struct Flaky {
    next: Arc<dyn Sink>,
    rules: Vec<Arc<Rule>>,
    counts: Arc<Counts>,
    away: Arc<watch::Sender<Option<String>>>,
    hanging: Arc<watch::Sender<Hanging>>,
}

#[derive(Debug, Default)]
struct Hanging {
    now: usize,
    released: bool,
}

/// A test that has waited this long will not come to an end.
const BOUND: Duration = Duration::from_secs(60);

impl Flaky {
    /// Accepts what no rule is against.
    pub fn accepting() -> Self {
        Self::around(Accepting)
    }

    /// Around a sink.
    pub fn around(sink: impl Sink) -> Self {
        Self {
            next: Arc::new(sink),
            rules: Vec::new(),
            counts: Arc::default(),
            away: Arc::default(),
            hanging: Arc::default(),
        }
    }

    /// Around a handler.
    pub fn around_handler(handler: impl Handler) -> Self {
        Self::around(OneByOne(handler))
    }

    /// A rule of your own: by event, and by how often it came by, counted from 1.
    #[must_use]
    pub fn rule(mut self, rule: impl Fn(&Event, u32) -> Option<Fate> + Send + Sync + 'static) -> Self {
        self.rules.push(Arc::new(rule));
        self
    }

    /// The first attempts at every event fail.
    #[must_use]
    pub fn fail_first(self, attempts: u32) -> Self {
        let fails = |attempt| Fate::Outcome(Outcome::retry(format!("attempt {attempt} was made to fail")));
        self.rule(move |_, attempt| (attempt <= attempts).then(|| fails(attempt)))
    }

    /// Events of these keys always fail.
    #[must_use]
    pub fn fail_keys<K: Into<String>>(self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys(keys, |key| Fate::Outcome(Outcome::retry(format!("key {key} was made to fail"))))
    }

    /// Events of these keys are refused for good.
    #[must_use]
    pub fn refuse_keys<K: Into<String>>(self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys(keys, |key| Fate::Outcome(Outcome::dead(format!("key {key} was made to be refused"))))
    }

    /// The first attempts at every event panic.
    #[must_use]
    pub fn panic_first(self, attempts: u32) -> Self {
        let panics = |attempt| Fate::Panic(format!("attempt {attempt} was made to panic"));
        self.rule(move |_, attempt| (attempt <= attempts).then(|| panics(attempt)))
    }

    /// Events of these keys get no answer until [`release`](Self::release).
    #[must_use]
    pub fn hang_keys<K: Into<String>>(self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys(keys, |_| Fate::Hang)
    }

    fn keys<K: Into<String>>(
        self,
        keys: impl IntoIterator<Item = K>,
        fate: impl Fn(&str) -> Fate + Send + Sync + 'static,
    ) -> Self {
        let keys: HashSet<String> = keys.into_iter().map(Into::into).collect();
        self.rule(move |event, _| event.key.as_deref().filter(|key| keys.contains(*key)).map(&fate))
    }

    /// From now on the receiver is away, whatever the rules say. Attempts are not counted meanwhile.
    pub fn go_away(&self, reason: impl Into<String>) {
        self.away.send_replace(Some(reason.into()));
    }

    /// It is there again.
    pub fn come_back(&self) {
        self.away.send_replace(None);
    }

    /// Lets go on what hangs, now and from now on.
    pub fn release(&self) {
        self.hanging.send_modify(|hanging| hanging.released = true);
    }

    /// Waits until this many events hang.
    ///
    /// # Panics
    /// If they do not within a minute.
    pub async fn until_hanging(&self, count: usize) {
        let mut watching = self.hanging.subscribe();
        let enough = watching.wait_for(|hanging| hanging.now >= count);
        if !matches!(tokio::time::timeout(BOUND, enough).await, Ok(Ok(_))) {
            panic!("only {} of {count} events hang after {BOUND:?}", self.hanging.borrow().now);
        }
    }

    /// The outcome of one event, unless it is up to what this stands around.
    async fn decide(&self, event: &Event) -> Option<Outcome> {
        if let Some(reason) = self.away.borrow().clone() {
            return Some(Outcome::unavailable(reason));
        }
        let attempt = self.counts.next(event.id);
        match self.rules.iter().find_map(|rule| rule(event, attempt))? {
            Fate::Outcome(outcome) => Some(outcome),
            Fate::Panic(words) => panic!("{words}"),
            Fate::Hang => {
                self.hang().await;
                None
            }
        }
    }

    async fn hang(&self) {
        let _hanging = CountedHang::new(&self.hanging);
        let mut watching = self.hanging.subscribe();
        // It ends only by the release: the sender lives as long as we do.
        drop(watching.wait_for(|hanging| hanging.released).await);
    }
}

/// Counts as hanging while it lives: an attempt can also end because its time is up.
struct CountedHang<'a>(&'a watch::Sender<Hanging>);

impl<'a> CountedHang<'a> {
    fn new(hanging: &'a watch::Sender<Hanging>) -> Self {
        hanging.send_modify(|hanging| hanging.now += 1);
        Self(hanging)
    }
}

impl Drop for CountedHang<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|hanging| hanging.now -= 1);
    }
}

#[async_trait]
impl Sink for Flaky {
    async fn deliver(&self, page: &mut Page) {
        let mut failed = FailedKeys::default();
        for (index, event) in page.events().to_vec().into_iter().enumerate() {
            if failed.passed_over(&event) {
                continue;
            }
            match self.decide(&event).await {
                // The rest is not tried, so it must not count as an attempt.
                Some(away @ Outcome::Unavailable { .. }) => return page.mark_rest(&away),
                Some(outcome) => page.mark(index, outcome),
                None => self.pass_on(page, index).await,
            }
            failed.note(&event, page.outcome(index));
        }
    }

    async fn check(&self) -> Result<(), String> {
        let away = self.away.borrow().clone();
        match away {
            Some(reason) => Err(reason),
            None => self.next.check().await,
        }
    }
}

impl Flaky {
    async fn pass_on(&self, page: &mut Page, index: usize) {
        let mut one = page.select(&[index]);
        self.next.deliver(&mut one).await;
        page.reached(index, one.step(0));
        if let Some(outcome) = one.outcome(0) {
            page.mark(index, outcome.clone());
        }
    }
}

#[async_trait]
impl Handler for Flaky {
    async fn handle(&self, event: Arc<Event>) -> Outcome {
        // A handler does not know the number of its attempt; the rules go by their own count.
        hand_over(self, event, 1).await
    }
}

impl fmt::Debug for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (away, hanging) = (self.away.borrow(), self.hanging.borrow());
        f.debug_struct("Flaky").field("away", &*away).field("hanging", &hanging.now).finish_non_exhaustive()
    }
}
