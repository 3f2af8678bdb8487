//! Events as the columns of a statement.

use chrono::{DateTime, Utc};
use posthaste::{Event, Page};
use serde_json::Value;
use uuid::Uuid;

use crate::endpoint::Route;
use crate::envelope::Form;

/// A value may have 1 GB in PostgreSQL, and needs twice its size as text; half of it leaves room for both.
pub(super) const LARGEST_BODY: usize = 512 * 1024 * 1024;

/// How much body one statement carries, unless a single event has more.
const STATEMENT_BYTES: usize = 16 * 1024 * 1024;

/// What is stored of an event besides its own fields.
#[derive(Debug)]
pub(super) struct Row {
    /// The CloudEvent in structured form; otherwise the payload is stored as it is.
    structured: Option<(String, Vec<u8>)>,
    headers: String,
    bytes: usize,
}

impl Row {
    /// The error is a sentence: the event can never be stored.
    pub(super) fn of(event: &Event, route: &Route) -> Result<Self, String> {
        let structured = match route.envelope.form() {
            Form::Binary => None,
            Form::Structured => Some(route.envelope.message(event)?)
                .map(|message| (message.content_type.into_owned(), message.body.into_owned())),
        };
        let bytes = structured.as_ref().map_or(event.payload.len(), |(_, body)| body.len());
        check_size(bytes)?;
        let headers: Value =
            event.headers.iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
        Ok(Self { structured, headers: headers.to_string(), bytes })
    }
}

fn check_size(bytes: usize) -> Result<(), String> {
    match bytes {
        0..=LARGEST_BODY => Ok(()),
        _ => Err(format!("the body has {bytes} bytes; the event store takes {LARGEST_BODY}")),
    }
}

/// Places of a page, in order, cut into groups that fit into one statement each.
pub(super) fn groups(rows: &[Option<Row>]) -> Vec<Vec<usize>> {
    let (mut groups, mut filled) = (Vec::<Vec<usize>>::new(), 0);
    for (index, row) in rows.iter().enumerate() {
        let Some(row) = row else { continue };
        filled += row.bytes;
        match groups.last_mut().filter(|_| filled <= STATEMENT_BYTES) {
            Some(group) => group.push(index),
            None => {
                groups.push(vec![index]);
                filled = row.bytes;
            }
        }
    }
    groups
}

/// One array per column.
#[derive(Debug, Default)]
pub(super) struct Columns<'p> {
    pub(super) id: Vec<Uuid>,
    pub(super) namespace: Vec<&'p str>,
    pub(super) topic: Vec<&'p str>,
    pub(super) event_type: Vec<Option<&'p str>>,
    pub(super) key: Vec<Option<&'p str>>,
    pub(super) aggregate_type: Vec<Option<&'p str>>,
    pub(super) aggregate_id: Vec<Option<&'p str>>,
    pub(super) tenant_id: Vec<Option<Uuid>>,
    pub(super) content_type: Vec<&'p str>,
    pub(super) payload: Vec<&'p [u8]>,
    pub(super) headers: Vec<&'p str>,
    pub(super) created_at: Vec<DateTime<Utc>>,
}

impl<'p> Columns<'p> {
    pub(super) fn of(page: &'p Page, rows: &'p [Option<Row>], group: &[usize]) -> Self {
        let mut columns = Self::default();
        for index in group {
            if let (Some(event), Some(Some(row))) = (page.events().get(*index), rows.get(*index)) {
                columns.push(event, row);
            }
        }
        columns
    }

    fn push(&mut self, event: &'p Event, row: &'p Row) {
        let (content_type, payload) = match &row.structured {
            Some((content_type, body)) => (content_type.as_str(), &body[..]),
            None => (event.content_type.as_str(), &event.payload[..]),
        };
        self.id.push(event.id.0);
        self.namespace.push(&event.namespace);
        self.topic.push(&event.topic);
        self.event_type.push(event.event_type.as_deref());
        self.key.push(event.key.as_deref());
        self.aggregate_type.push(event.aggregate_type.as_deref());
        self.aggregate_id.push(event.aggregate_id.as_deref());
        self.tenant_id.push(event.tenant_id);
        self.content_type.push(content_type);
        self.payload.push(payload);
        self.headers.push(&row.headers);
        self.created_at.push(event.created_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: usize) -> Option<Row> {
        Some(Row { structured: None, headers: "{}".to_owned(), bytes })
    }

    #[test]
    fn a_page_is_cut_where_a_statement_would_become_too_large() {
        let half = STATEMENT_BYTES / 2;
        let rows = [row(half), row(half), None, row(1), row(2 * STATEMENT_BYTES), row(1), row(1)];
        assert_eq!(groups(&rows), [vec![0, 1], vec![3], vec![4], vec![5, 6]]);
        assert_eq!(groups(&[]), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn a_body_that_no_table_can_hold_is_refused_with_the_numbers() {
        assert_eq!(check_size(LARGEST_BODY), Ok(()));
        let refusal = check_size(LARGEST_BODY + 1).expect_err("too large");
        assert_eq!(refusal, "the body has 536870913 bytes; the event store takes 536870912");
    }
}
