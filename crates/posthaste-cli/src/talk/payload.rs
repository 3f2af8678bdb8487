//! Bodies of events: shown as what they are, and never changed on the way.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::IgnoredAny;

use super::out::{clean, plural};

/// How much of a body that is not text is shown.
const DUMPED: usize = 1024;

/// The body as JSON text, if it is JSON.
fn json_text(payload: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(payload).ok()?;
    serde_json::from_str::<IgnoredAny>(text).is_ok().then_some(text)
}

/// For people: JSON indented, other text as it is, anything else as a hex dump.
pub(crate) fn readable(payload: &[u8]) -> Vec<String> {
    match (json_text(payload), std::str::from_utf8(payload)) {
        _ if payload.is_empty() => vec!["(empty)".to_owned()],
        (Some(json), _) => indented(json).lines().map(clean).collect(),
        (None, Ok(text)) => text.lines().map(clean).collect(),
        (None, Err(_)) => hex_dump(payload),
    }
}

/// For scripts: the value of `payload`, and of `payload_encoding` if it is not JSON itself. JSON is copied to the letter:
/// parsing it would change large numbers.
pub(crate) fn json_value(payload: &[u8]) -> (String, Option<&'static str>) {
    match json_text(payload) {
        Some(text) => (text.replace(['\n', '\r'], " "), None),
        None => (format!("\"{}\"", BASE64_STANDARD.encode(payload)), Some("base64")),
    }
}

/// Valid JSON with line breaks and indents, every token as it was.
fn indented(json: &str) -> String {
    let (mut out, mut depth, mut quoted, mut escaped) = (String::new(), 0_usize, false, false);
    let mut chars = json.chars().filter(|c| !c.is_control()).peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    while let Some(c) = chars.next() {
        if quoted {
            out.push(c);
            (quoted, escaped) = (escaped || c != '"', !escaped && c == '\\');
            continue;
        }
        match c {
            ' ' => {}
            '{' | '[' => {
                out.push(c);
                while chars.next_if_eq(&' ').is_some() {}
                match chars.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                quoted = c == '"';
                out.push(c);
            }
        }
    }
    out
}

fn hex_dump(bytes: &[u8]) -> Vec<String> {
    let shown = &bytes[..bytes.len().min(DUMPED)];
    let line = |(row, chunk): (usize, &[u8])| {
        let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let text: String =
            chunk.iter().map(|byte| if (32..127).contains(byte) { char::from(*byte) } else { '.' }).collect();
        format!("{:08x}  {:<47}  {text}", row * 16, hex.join(" "))
    };
    let mut lines: Vec<String> = shown.chunks(16).enumerate().map(line).collect();
    if shown.len() < bytes.len() {
        let rest = plural((bytes.len() - shown.len()) as u64, "byte", "bytes");
        lines.push(format!("... and {rest} more; --payload-only writes all of them"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_no_token_changes() {
        let body =
            br#"{"n":12345678901234567890123,"f":1.10,"s":"a { , \" \\","e":[],"o": { },"l":[1,{"x":null}]}"#;
        let expected = [
            "{",
            r#"  "n": 12345678901234567890123,"#,
            r#"  "f": 1.10,"#,
            r#"  "s": "a { , \" \\","#,
            r#"  "e": [],"#,
            r#"  "o": {},"#,
            r#"  "l": ["#,
            "    1,",
            "    {",
            r#"      "x": null"#,
            "    }",
            "  ]",
            "}",
        ];
        assert_eq!(readable(body), expected);
        assert_eq!(json_value(body).0.as_bytes(), body);
    }

    #[test]
    fn text_and_bytes_are_shown_as_such() {
        assert_eq!(readable(b"hello\n\x1b[2Jworld"), ["hello", "\\u{1b}[2Jworld"]);
        assert_eq!(readable(b""), ["(empty)"]);
        let dump = readable(&[0xff, b'A', 0]);
        assert!(dump[0].starts_with("00000000  ff 41 00 ") && dump[0].ends_with("  .A."), "{dump:?}");
        assert_eq!(
            readable(&[0xff; 2000]).last().unwrap(),
            "... and 976 bytes more; --payload-only writes all of them"
        );
        assert_eq!(json_value(&[0, 255]), ("\"AP8=\"".to_owned(), Some("base64")));
        assert_eq!(json_value(b"plain"), ("\"cGxhaW4=\"".to_owned(), Some("base64")));
    }
}
