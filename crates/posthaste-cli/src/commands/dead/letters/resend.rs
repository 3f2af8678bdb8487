//! The events of letters once more, by the subscription that the consumer listens to.
//!
//! Let in, deliver, note, in this order and in up to two databases: whoever dies in between leaves an open letter, and
//! each step can be repeated.

use posthaste::admin::{Redelivery, SubscriptionState};
use posthaste::inbox::{DeadLetter, LetIn, LetterStatus};
use posthaste::{Admin, Error, EventId};
use serde_json::{Value, json};

use crate::cli::GlobalOptions;
use crate::cli::letters::ResendOptions;
use crate::context::Context;
use crate::failure::Failure;
use crate::talk::ask::confirm;
use crate::talk::names::known;
use crate::talk::out::{self, clean, plural, typed};

use super::Post;

/// What became of one letter.
struct Sent {
    dead: DeadLetter,
    let_in: LetIn,
    /// `None`: the consumer has done the event since, so nothing was sent.
    redelivery: Option<Redelivery>,
    /// The letter says so.
    noted: bool,
}

pub(super) async fn run(global: &GlobalOptions, post: &Post, options: &ResendOptions) -> Result<(), Failure> {
    let chosen = post.chosen(&options.numbers).await?;
    let admin = Context::open(global).await?.admin();
    let subscription = known(&admin.clone().counting_to(1), &options.to).await?;
    let mut events = Vec::new();
    for dead in chosen {
        events.push((checked(&admin, &dead, &options.to).await?, dead));
    }
    let what = plural(events.len() as u64, "dead letter", "dead letters");
    if options.consent.dry_run {
        return would(post, &options.to, &what, &events);
    }
    if events.len() > 1 {
        confirm(&format!("Send {what} again by {}?", options.to), options.consent.yes)?;
    }
    let mut sent = Vec::new();
    for (id, dead) in events {
        sent.push(resend(post, &admin, &options.to, id, dead).await?);
    }
    answer(post, &subscription, &sent)
}

/// The event, if it can go by that subscription: asked before its mark is forgotten.
async fn checked(admin: &Admin, dead: &DeadLetter, to: &str) -> Result<EventId, Failure> {
    let (number, id) = (dead.number, &dead.letter.event_id);
    let Ok(id) = id.parse().map(EventId) else {
        return Err(Failure::usage(format!(
            "letter {number} is about `{}`, which is no id of this log; send its body yourself: {}",
            clean(id),
            by_hand(number)
        )));
    };
    let detail = match admin.event(id).await {
        Err(Error::NoSuchEvent(_)) => {
            return Err(Failure::not_found(format!(
                "event {id} of letter {number} is not in the log any more (retention removed it, or it is another log's); \
                 the letter has its body: {}",
                by_hand(number)
            )));
        }
        found => found?,
    };
    match detail.states.iter().any(|state| state.subscription == to) {
        true => Ok(id),
        false => Err(Error::NotWanted { subscription: to.to_owned(), event: id.to_string() }.into()),
    }
}

fn by_hand(number: i64) -> String {
    format!("`posthaste dead letters show {number} --json`")
}

async fn resend(
    post: &Post,
    admin: &Admin,
    to: &str,
    id: EventId,
    dead: DeadLetter,
) -> Result<Sent, Failure> {
    let let_in = post.letters.let_in(&dead).await.map_err(|error| post.refused(error))?;
    let redelivery = match let_in {
        LetIn::Done => None,
        _ => Some(admin.redeliver(to, id).await?),
    };
    let noted = match redelivery {
        Some(Redelivery::Held) => false,
        _ => post.letters.note_resent(&dead).await.map_err(|error| post.refused(error))?,
    };
    Ok(Sent { dead, let_in, redelivery, noted })
}

fn would(post: &Post, to: &str, what: &str, events: &[(EventId, DeadLetter)]) -> Result<(), Failure> {
    if !post.json {
        return out::line(format!("{what} would be sent again by {to}. Nothing was changed."));
    }
    let letter = |(_, dead): &(EventId, DeadLetter)| named(dead);
    let letters: Vec<Value> = events.iter().map(letter).collect();
    out::line(
        json!({"verb": "resend", "subscription": to, "matched": events.len(), "changed": 0, "dry_run": true, "letters": letters})
            .to_string(),
    )
}

fn named(dead: &DeadLetter) -> Value {
    json!({"number": dead.number, "consumer": dead.consumer, "event_id": dead.letter.event_id})
}

fn answer(post: &Post, subscription: &SubscriptionState, sent: &[Sent]) -> Result<(), Failure> {
    match post.json {
        true => out::line(sent_json(&subscription.name, sent))?,
        false => out::lines(sent.iter().map(|one| told(one, &subscription.name)))?,
    }
    sent.iter().filter_map(warning).for_each(|line| eprintln!("{line}"));
    let waits = sent.iter().any(|one| one.redelivery.is_some_and(|it| it != Redelivery::Held));
    if subscription.paused_since.is_some() && waits {
        let name = typed(&subscription.name);
        eprintln!("{name} is paused, and sends when it goes on: posthaste subscriptions resume {name}");
    }
    match sent.iter().any(|one| one.redelivery == Some(Redelivery::Held)) {
        true => Err(Failure::sentence("not all were sent; type the command again in a moment")),
        false => Ok(()),
    }
}

fn sent_json(subscription: &str, sent: &[Sent]) -> String {
    let one = |sent: &Sent| {
        let mut letter = named(&sent.dead);
        letter["redelivery"] = sent.redelivery.map_or("done", Redelivery::as_str).into();
        letter["mark_forgotten"] = (sent.let_in == LetIn::Forgotten).into();
        letter["resent"] = sent.noted.into();
        letter
    };
    let changed = sent.iter().filter(|one| one.redelivery.is_some_and(|it| it != Redelivery::Held)).count();
    let letters: Vec<Value> = sent.iter().map(one).collect();
    json!({"verb": "resend", "subscription": subscription, "matched": sent.len(), "changed": changed, "dry_run": false, "letters": letters})
        .to_string()
}

fn told(sent: &Sent, subscription: &str) -> String {
    let what = match sent.redelivery {
        Some(Redelivery::Parked) => format!("sent again by {subscription}, after earlier events of its key."),
        Some(Redelivery::Coming) => {
            format!("{subscription} has not delivered it yet; it comes anyway, and is let in.")
        }
        Some(Redelivery::Held) => "a worker holds it at this moment; nothing was sent.".to_owned(),
        Some(_) => format!("sent again by {subscription}."),
        None => format!("{} has done it since it gave up; nothing was sent.", clean(&sent.dead.consumer)),
    };
    format!("letter {}: {what}", sent.dead.number)
}

/// What whoever sent it should know beside.
fn warning(sent: &Sent) -> Option<String> {
    let (number, consumer) = (sent.dead.number, clean(&sent.dead.consumer));
    if !sent.noted && sent.redelivery != Some(Redelivery::Held) {
        return Some(format!("letter {number}: {consumer} has given up again meanwhile; the letter is open"));
    }
    (sent.let_in == LetIn::NoMark && sent.dead.status == LetterStatus::Open).then(|| {
        format!(
            "letter {number}: there was no mark of {consumer} to forget; if it guards with Redis, let it forget the event, \
             or it takes this copy for a duplicate"
        )
    })
}
