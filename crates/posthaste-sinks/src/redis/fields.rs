//! An event as an entry of a stream.

use posthaste::Event;

use super::settings::RedisSettings;
use crate::endpoint::Route;

/// Lua hands over at most about 8,000 words at once.
const MOST_HEADERS: usize = 3000;

/// Room for the words of an event without headers, and for their bytes beside the payload.
const USUAL_WORDS: usize = 32;
const USUAL_ATTRIBUTES: usize = 512;

/// One event as the script takes it. Its words lie one behind the other: one by one they would cost more than the event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) stream: String,
    bytes: Vec<u8>,
    /// Where each word ends.
    ends: Vec<usize>,
}

impl Entry {
    /// The entry of an event; the error says why there can be none.
    pub(super) fn new(settings: &RedisSettings, route: &Route, event: &Event) -> Result<Self, String> {
        let stream = settings.stream.render(event)?;
        if stream.is_empty() {
            return Err("the name of the stream is empty".to_owned());
        }
        let bytes = Vec::with_capacity(event.payload.len() + USUAL_ATTRIBUTES);
        let mut entry = Self { stream, bytes, ends: Vec::with_capacity(USUAL_WORDS) };
        if let Some(limit) = settings.max_length {
            let how = if limit.exact { "=" } else { "~" };
            ["MAXLEN", how, &limit.entries.to_string()].into_iter().for_each(|word| entry.word(&[word]));
        }
        entry.word(&["*"]);
        entry.add_fields(route, event)?;
        Ok(entry)
    }

    /// No field of ours can be mistaken for a producer's header, because each kind has its prefix.
    fn add_fields(&mut self, route: &Route, event: &Event) -> Result<(), String> {
        let message = route.envelope.message(event)?;
        if message.headers.len() > MOST_HEADERS {
            return Err(format!("{} headers, and {MOST_HEADERS} can be carried", message.headers.len()));
        }
        self.add(["id", ""], event.id.to_string());
        if let Some(key) = &event.key {
            self.add(["key", ""], key);
        }
        for (name, value) in &message.attributes {
            self.add(["ce_", name], &**value);
        }
        for (name, value) in &message.headers {
            self.add(["h_", name], value);
        }
        self.add(["content-type", ""], &*message.content_type);
        self.add(["data", ""], message.body);
        Ok(())
    }

    fn add(&mut self, name: [&str; 2], value: impl AsRef<[u8]>) {
        self.word(&name);
        self.word(&[value]);
    }

    fn word(&mut self, pieces: &[impl AsRef<[u8]>]) {
        pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece.as_ref()));
        self.ends.push(self.bytes.len());
    }

    /// What stands in XADD behind the key: the limit, `*`, fields and values.
    pub(super) fn words(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let start = |place: usize| if place == 0 { 0 } else { self.ends[place - 1] };
        self.ends.iter().enumerate().map(move |(place, end)| &self.bytes[start(place)..*end])
    }

    /// Bytes on their way.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + 16 * self.ends.len() + self.stream.len() + 64
    }

    /// The server closes the connection over a word that is too long, so nobody may send it.
    pub(super) fn check_size(&self, longest: usize) -> Result<(), String> {
        match self.words().map(<[u8]>::len).max().filter(|length| *length > longest) {
            Some(length) => Err(format!(
                "a field of {length} bytes, and the server takes {longest} (its proto-max-bulk-len)"
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use posthaste::NewEvent;
    use posthaste::inbox::{Source, event_id_of};

    use super::*;
    use crate::envelope::{Envelope, Form};
    use crate::redis::RedisMaxLength;
    use crate::template::Template;

    fn words(settings: &RedisSettings, route: &Route) -> Vec<String> {
        let event = NewEvent::bytes("orders", "x").key("k").header("a", "b").header("data", "forged");
        let event = event.stored(1, DateTime::UNIX_EPOCH);
        let entry = Entry::new(settings, route, &event).expect("an entry");
        entry.words().map(|word| String::from_utf8(word.to_vec()).expect("text")).collect()
    }

    #[test]
    fn fields_have_prefixes_and_the_limit_stands_first() {
        let mut settings = RedisSettings::new("localhost", 1, Template::literal("orders"));
        let binary = words(&settings, &Route::new("s"));
        assert_eq!((binary[0].as_str(), binary[1].as_str()), ("*", "id"));
        assert!(binary.windows(2).any(|pair| pair == ["h_data", "forged"]));
        assert!(binary.windows(2).any(|pair| pair == ["ce_partitionkey", "k"]));
        assert_eq!(binary[binary.len() - 2..], ["data", "x"]);
        settings.max_length = Some(RedisMaxLength { entries: 10, exact: false });
        let structured = words(&settings, &Route::new("s").envelope(Envelope::new(Form::Structured)));
        assert_eq!(structured[..4], ["MAXLEN", "~", "10", "*"]);
        assert!(structured.windows(2).any(|pair| pair == ["key", "k"]));
        assert!(!structured.iter().any(|word| word.starts_with("ce_")));
    }

    #[test]
    fn consumers_find_the_event_id_in_both_forms() {
        let settings = RedisSettings::new("localhost", 1, Template::literal("orders"));
        for form in [Form::Binary, Form::Structured] {
            let event = NewEvent::bytes("orders", "x").header("id", "forged").stored(1, DateTime::UNIX_EPOCH);
            let route = Route::new("s").envelope(Envelope::new(form));
            let entry = Entry::new(&settings, &route, &event).expect("an entry");
            let words: Vec<&[u8]> = entry.words().collect();
            let (pairs, _) = words[1..].as_chunks::<2>();
            let text = |word: &[u8]| String::from_utf8(word.to_vec()).expect("text");
            let id = event_id_of(Source::Redis, pairs.iter().map(|[name, value]| (text(name), value)));
            assert_eq!(id, Some(event.id.to_string()), "{form:?}");
        }
    }
}
