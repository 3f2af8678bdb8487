//! What SQS takes as text, and how a key becomes the name of a group.

use sha2::{Digest, Sha256};

/// The longest name of a group.
const MAX_GROUP: usize = 128;

/// Finds what SQS would refuse: it takes the characters of XML 1.0. The error names the first that is none, and where.
pub(super) fn check(what: &str, text: &str) -> Result<(), String> {
    match text.chars().enumerate().find(|(_, found)| !is_allowed(*found)) {
        Some((at, found)) => Err(format!(
            "{what} contains U+{:04X} at character {}, which SQS does not take",
            u32::from(found),
            at + 1
        )),
        None => Ok(()),
    }
}

fn is_allowed(found: char) -> bool {
    matches!(found, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// Bytes as text; the error names the first byte that is none, and where.
pub(super) fn utf8(payload: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(payload).map_err(|error| {
        let (at, byte) = (error.valid_up_to(), payload.get(error.valid_up_to()).copied().unwrap_or(0));
        format!(
            "the payload is not text: byte 0x{byte:02X} at position {}; SQS takes text only, so write encoding = \"base64\"",
            at + 1
        )
    })
}

/// The group of a key: the key itself where SQS takes it, otherwise written with `%`; too long, its hash. Two keys never
/// share a group, so that no key waits for another.
pub(super) fn group(key: &str) -> String {
    let plain = |byte: u8| matches!(byte, 0x21..=0x7e) && byte != b'%';
    let mut name = String::with_capacity(key.len());
    for byte in key.bytes() {
        match plain(byte) {
            true => name.push(char::from(byte)),
            false => name.push_str(&format!("%{byte:02X}")),
        }
    }
    if name.len() <= MAX_GROUP {
        return name;
    }
    let digest = Sha256::digest(key.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256-{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_characters_of_xml_are_taken_and_others_are_named_with_their_place() {
        assert_eq!(check("the body", "grüße\t\r\n 世界 🎉 \u{7f}\u{FFFD}"), Ok(()));
        for (text, words) in [
            ("a\0b", "U+0000 at character 2"),
            ("\u{1b}[0m", "U+001B at character 1"),
            ("äö\u{FFFE}", "U+FFFE at character 3"),
            ("\u{FFFF}", "U+FFFF at character 1"),
        ] {
            let sentence = check("the body", text).expect_err("refused");
            assert_eq!(sentence, format!("the body contains {words}, which SQS does not take"));
        }
        assert!(utf8(b"ab\xff").expect_err("no text").contains("byte 0xFF at position 3"));
    }

    #[test]
    fn a_group_is_the_key_or_a_name_that_no_other_key_has() {
        assert_eq!(group("order-1/a.b"), "order-1/a.b");
        assert_eq!(group("key one/ä"), "key%20one/%C3%A4");
        assert_eq!(group("100%"), "100%25");
        let (long, longer) = (group(&"x".repeat(129)), group(&"x".repeat(130)));
        assert!(long.starts_with("sha256-") && long.len() == 71 && long != longer, "{long}");
        assert_eq!(group(&"x".repeat(128)).len(), 128);
    }
}
