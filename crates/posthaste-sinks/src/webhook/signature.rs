//! Signatures of Standard Webhooks 1.0.0: HMAC-SHA256 over `{id}.{timestamp}.{body}`, one signature per secret.
//!
//! Only symmetric signatures (`v1`). The asymmetric `v1a` would need a library for ed25519.

use std::fmt;
use std::ops::RangeInclusive;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What stands before a secret in its written form.
const PREFIX: &str = "whsec_";

/// How many bytes a secret may have.
const LENGTHS: RangeInclusive<usize> = 24..=64;

/// How to get a good secret.
const REMEDY: &str = "make one with: echo whsec_$(openssl rand -base64 32)";

/// A secret that signs. It is never printed.
#[derive(Clone)]
pub(super) struct SigningKey {
    bytes: Vec<u8>,
    /// What has taken the secret in and awaits a message.
    begun: Hmac<Sha256>,
}

impl PartialEq for SigningKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for SigningKey {}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl SigningKey {
    /// Reads `whsec_` and base64. The error is a sentence that does not show the secret.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let coded = text
            .trim()
            .strip_prefix(PREFIX)
            .ok_or_else(|| format!("expected a secret that begins with {PREFIX}; {REMEDY}"))?;
        let bytes = BASE64_STANDARD
            .decode(coded)
            .map_err(|_| format!("what follows {PREFIX} is not base64; {REMEDY}"))?;
        match LENGTHS.contains(&bytes.len()) {
            true => {
                // HMAC takes keys of any length.
                let begun = Hmac::new_from_slice(&bytes).unwrap_or_else(|_| unreachable!());
                Ok(Self { bytes, begun })
            }
            false => {
                let (from, to, got) = (LENGTHS.start(), LENGTHS.end(), bytes.len());
                Err(format!("expected a secret of {from} to {to} bytes, got {got}; {REMEDY}"))
            }
        }
    }

    fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut mac = self.begun.clone();
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// The value of `webhook-signature`: every secret signs, so that receivers may change over at their own time.
pub(super) fn signatures(keys: &[SigningKey], id: &str, timestamp: i64, body: &[u8]) -> String {
    let signatures: Vec<String> = keys.iter().map(|key| key.sign(id, timestamp, body)).collect();
    signatures.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    // Both values are what Python says:
    //   import hmac, base64, hashlib
    //   key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    //   text = b'msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}'
    //   base64.b64encode(hmac.new(key, text, hashlib.sha256).digest())
    const FIRST: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    // The same with key = bytes(range(64)).
    const SECOND: &str = "v1,LZ5zuwHTqQH3VM8ERUusjzVQq1FXzemvpR8Mk7Ivp5c=";

    fn key(text: &str) -> SigningKey {
        SigningKey::parse(text).expect("a secret")
    }

    #[test]
    fn the_vector_of_the_reference_libraries_comes_out() {
        assert_eq!(signatures(&[key(SECRET)], ID, 1_614_265_330, BODY), FIRST);
    }

    #[test]
    fn every_secret_signs_the_current_one_first() {
        let other = format!("whsec_{}", BASE64_STANDARD.encode((0..64).collect::<Vec<u8>>()));
        let both = signatures(&[key(SECRET), key(&other)], ID, 1_614_265_330, BODY);
        assert_eq!(both, format!("{FIRST} {SECOND}"));
    }

    #[test]
    fn a_bad_secret_is_refused_without_being_shown() {
        let (short, long) = (BASE64_STANDARD.encode([7; 23]), BASE64_STANDARD.encode([7; 65]));
        for (text, sentence) in [
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(), "begins with whsec_"),
            ("whsec_not*base64".to_owned(), "is not base64"),
            (format!("whsec_{short}"), "24 to 64 bytes, got 23"),
            (format!("whsec_{long}"), "24 to 64 bytes, got 65"),
        ] {
            let error = SigningKey::parse(&text).expect_err("bad");
            assert!(error.contains(sentence) && error.contains("openssl rand"), "{error}");
            assert!(!error.contains(text.trim_start_matches("whsec_")), "{error}");
        }
        assert_eq!(format!("{:?}", key(SECRET)), "(secret)");
    }
}
