//! Texts with places to fill in from the event: topics, subjects, routing keys, addresses.

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
        self.render_with(event, |value| value)
    }

    /// Fills in values that are written another way here, such as in the path of a URL.
    pub(crate) fn render_with(
        &self,
        event: &Event,
        write: impl Fn(String) -> String,
    ) -> Result<String, String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Place(place) => text.push_str(&write(place.value(event)?)),
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

    fn value(&self, event: &Event) -> Result<String, String> {
        let value = match self {
            Self::Namespace => Some(event.namespace.clone()),
            Self::Topic => Some(event.topic.clone()),
            Self::EventType => event.event_type.clone(),
            Self::Key => event.key.clone(),
            Self::AggregateType => event.aggregate_type.clone(),
            Self::AggregateId => event.aggregate_id.clone(),
            Self::TenantId => event.tenant_id.map(|tenant| tenant.to_string()),
            Self::Header(name) => event.headers.get(name).map(str::to_owned),
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
