//! Texts with places to fill in from the event: topics, subjects, routing keys, addresses.

use std::borrow::Cow;

use posthaste::Event;

/// A parsed template such as `shop.{topic}`. Places are `{namespace}`, `{topic}`, `{event_type}`, `{key}`,
/// `{aggregate_type}`, `{aggregate_id}`, `{tenant_id}` and `{header:NAME}`; `{{` and `}}` stand for braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Place(Place),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Namespace,
    Topic,
    EventType,
    Key,
    AggregateType,
    AggregateId,
    TenantId,
    Header(String),
}

const PLACES: [(&str, Place); 7] = [
    ("namespace", Place::Namespace),
    ("topic", Place::Topic),
    ("event_type", Place::EventType),
    ("key", Place::Key),
    ("aggregate_type", Place::AggregateType),
    ("aggregate_id", Place::AggregateId),
    ("tenant_id", Place::TenantId),
];

impl Template {
    /// Reads a template; the error is a sentence for whoever wrote it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            literal.push_str(before);
            if let Some(after) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
                literal.push_str(&brace[..1]);
                rest = after;
                continue;
            }
            let inside = brace.strip_prefix('{').and_then(|inside| inside.split_once('}'));
            let (name, after) = inside.ok_or_else(|| {
                format!("a single brace in `{text}`; write {{{{ or }}}} for a brace itself")
            })?;
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(Part::Place(Place::parse(name)?));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { parts })
    }

    /// A text without any place.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text(text.into())] }
    }

    /// The text, if no place has to be filled in.
    pub fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Fills in; the error names what the event lacks.
    pub fn render(&self, event: &Event) -> Result<String, String> {
        self.render_with(event, |value| value.into())
    }

    /// Fills in values that are written another way here, such as in the path of a URL.
    pub(crate) fn render_with(
        &self,
        event: &Event,
        write: impl for<'v> Fn(&'v str) -> Cow<'v, str>,
    ) -> Result<String, String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Place(place) => text.push_str(&write(&place.value(event)?)),
            }
        }
        Ok(text)
    }
}

impl Place {
    fn parse(name: &str) -> Result<Self, String> {
        if let Some(header) = name.strip_prefix("header:").filter(|header| !header.is_empty()) {
            return Ok(Self::Header(header.to_ascii_lowercase()));
        }
        let known = PLACES.iter().find(|(word, _)| *word == name);
        known.map(|(_, place)| place.clone()).ok_or_else(|| {
            let words: Vec<&str> = PLACES.iter().map(|(word, _)| *word).collect();
            format!("there is no place `{{{name}}}`; there are {} and header:NAME", words.join(", "))
        })
    }

    fn value<'e>(&self, event: &'e Event) -> Result<Cow<'e, str>, String> {
        let value = match self {
            Self::Namespace => Some(Cow::from(&event.namespace)),
            Self::Topic => Some(Cow::from(&event.topic)),
            Self::EventType => event.event_type.as_ref().map(Cow::from),
            Self::Key => event.key.as_ref().map(Cow::from),
            Self::AggregateType => event.aggregate_type.as_ref().map(Cow::from),
            Self::AggregateId => event.aggregate_id.as_ref().map(Cow::from),
            Self::TenantId => event.tenant_id.map(|tenant| tenant.to_string().into()),
            Self::Header(name) => event.headers.get(name).map(Cow::from),
        };
        value.ok_or_else(|| format!("the address needs {}, and the event has none", self.words()))
    }

    fn words(&self) -> String {
        match self {
            Self::Header(name) => format!("the header {name}"),
            place => {
                let word = PLACES.iter().find(|(_, known)| known == place).map_or("", |(word, _)| word);
                word.replace('_', " ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use posthaste::NewEvent;

    use super::*;

    fn rendered(template: &str, event: NewEvent) -> Result<String, String> {
        Template::parse(template).expect("a template").render(&event.stored(1, DateTime::UNIX_EPOCH))
    }

    #[test]
    fn places_are_filled_in_from_the_event() {
        let event =
            || NewEvent::bytes("orders", vec![]).event_type("order.created").key("k").header("Region", "eu");
        assert_eq!(
            rendered("shop.{topic}.{event_type}", event()).as_deref(),
            Ok("shop.orders.order.created")
        );
        assert_eq!(rendered("{namespace}/{key}/{header:Region}", event()).as_deref(), Ok("default/k/eu"));
        assert_eq!(rendered("{{{topic}}}", event()).as_deref(), Ok("{orders}"));
        assert_eq!(rendered("", event()).as_deref(), Ok(""));
        let missing = rendered("{aggregate_type}", event());
        assert_eq!(missing, Err("the address needs aggregate type, and the event has none".into()));
        assert_eq!(
            rendered("{header:x}", event()),
            Err("the address needs the header x, and the event has none".into())
        );
    }

    #[test]
    fn mistakes_are_told_when_the_template_is_read() {
        for (text, sentence) in [
            ("{topik}", "there is no place `{topik}`"),
            ("{topic", "a single brace"),
            ("topic}", "a single brace"),
            ("{header:}", "there is no place `{header:}`"),
        ] {
            let refused = Template::parse(text).expect_err(text);
            assert!(refused.starts_with(sentence), "{refused}");
        }
    }

    #[test]
    fn a_template_without_places_is_a_literal() {
        assert_eq!(Template::parse("orders").expect("a template").as_literal(), Some("orders"));
        assert_eq!(Template::parse("{topic}").expect("a template").as_literal(), None);
    }
}
