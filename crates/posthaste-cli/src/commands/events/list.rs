//! Pages of events, each with a hint where the next begins.

use posthaste::Admin;
use posthaste::admin::{EventPage, EventQuery, Found};
use serde_json::{Value, json};

use crate::cli::events::ListEvents;
use crate::context::Context;
use crate::failure::Failure;
use crate::talk::names::known;
use crate::talk::out::{self, clean};
use crate::talk::shape;
use crate::talk::table::Table;
use crate::talk::time::short_stamp;

/// Looking is bounded: a page looks at this many spans of the log before it asks to go on.
const SPANS: usize = 20;

pub(super) async fn run(context: &Context, options: &ListEvents) -> Result<(), Failure> {
    let admin = context.admin();
    let mut query = options.filter.query();
    (query.oldest_first, query.limit, query.after) = (options.oldest_first, options.limit, options.after);
    check_subscription(&admin, &query).await?;
    let page = gathered(&admin, query).await?;
    if context.json {
        return out::line(page_json(&page));
    }
    out::lines(table(&page.events).lines())?;
    hint(&page);
    Ok(())
}

/// Says what is near, if the subscription is not there.
pub(super) async fn check_subscription(admin: &Admin, query: &EventQuery) -> Result<(), Failure> {
    match &query.subscription {
        Some(name) => known(&admin.clone().counting_to(1), name).await.map(drop),
        None => Ok(()),
    }
}

/// Goes on over spans in which nothing matched, until the page is full or enough was looked at.
async fn gathered(admin: &Admin, mut query: EventQuery) -> Result<EventPage, Failure> {
    let limit = query.limit as usize;
    let mut page = admin.events(&query).await?;
    for _ in 1..SPANS {
        let Some(next) = page.next.filter(|_| page.events.len() < limit) else { break };
        query.after = Some(next);
        query.limit = u32::try_from(limit - page.events.len()).unwrap_or(1);
        let more = admin.events(&query).await?;
        page.events.extend(more.events);
        (page.looked_at, page.next) = (page.looked_at + more.looked_at, more.next);
    }
    Ok(page)
}

fn page_json(page: &EventPage) -> String {
    let events: Vec<String> = page.events.iter().map(found_json).collect();
    let next = page.next.map_or("null".to_owned(), |next| next.to_string());
    format!("{{\"events\":[{}],\"looked_at\":{},\"next\":{next}}}", events.join(","), page.looked_at)
}

pub(super) fn found_json(found: &Found) -> String {
    let state = found.state.as_ref().map_or(Value::Null, shape::event_state);
    shape::event(&found.event, json!({"state": state}))
}

fn table(found: &[Found]) -> Table {
    let stated = found.iter().any(|found| found.state.is_some());
    let plain = ["id", "enqueued (UTC)", "topic", "type", "key"];
    let mut table =
        Table::new(2, plain.into_iter().chain(stated.then_some(["status", "tries"]).into_iter().flatten()));
    for one in found {
        table.row(cells(one));
    }
    table
}

/// An event in a row; its state last, if there is one.
pub(super) fn cells(found: &Found) -> Vec<String> {
    let event = &found.event;
    let or_dash = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), clean);
    let mut cells = vec![
        event.id.to_string(),
        short_stamp(event.created_at),
        clean(&event.topic),
        or_dash(&event.event_type),
        or_dash(&event.key),
    ];
    if let Some(state) = &found.state {
        cells.extend([state.status.as_str().to_owned(), state.attempts.to_string()]);
    }
    cells
}

fn hint(page: &EventPage) {
    match (page.next, page.events.is_empty()) {
        (Some(next), _) => eprintln!("{} shown; for the next page add: --after {next}", page.events.len()),
        (None, true) => eprintln!("No event matches."),
        (None, false) => {}
    }
}
