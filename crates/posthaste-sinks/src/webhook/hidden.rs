//! Words that a receiver may repeat in its answer and that must not come into a reason: reasons are stored, shown and logged.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use reqwest::header::HeaderMap;

/// Shorter words are no secrets, and would tear sentences apart.
const SHORTEST: usize = 7;

/// Secrets in the forms in which they travel.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Hidden(Vec<String>);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({} secrets)", self.0.len())
    }
}

impl Hidden {
    /// The values of our own headers, the parts of a URL that was kept out of the file, and what a proxy is told.
    pub(super) fn of(headers: &HeaderMap, secret_url: Option<&str>, proxy: Option<&str>) -> Self {
        let mut words: Vec<String> = Vec::new();
        for value in headers.values().filter_map(|value| value.to_str().ok()) {
            words.extend(value.split_whitespace().map(str::to_owned));
        }
        let path = secret_url.and_then(|url| url.split_once("://")?.1.split_once(['/', '?']));
        words.extend(path.iter().flat_map(|(_, rest)| rest.split(['/', '?', '&', '='])).map(str::to_owned));
        if let Some(url) = proxy.and_then(|url| Url::parse(url).ok()) {
            let password = url.password().unwrap_or_default();
            words.extend([password.to_owned(), STANDARD.encode(format!("{}:{password}", url.username()))]);
        }
        words.retain(|word| word.len() >= SHORTEST && !word.contains('{'));
        // A secret that is part of a longer one would leave the rest of it.
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        Self(words)
    }

    /// The text without them, also if it breaks off in the middle of one.
    pub(super) fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for word in &self.0 {
            text = text.replace(word.as_str(), "***");
            let begun =
                (SHORTEST.min(word.len())..word.len()).rev().filter(|end| word.is_char_boundary(*end));
            if let Some(end) = begun.into_iter().find(|end| text.ends_with(&word[..*end])) {
                text.truncate(text.len() - end);
                text.push_str("***");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_receiver_repeats_is_masked_in_every_form() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer abcdefgh123".parse().expect("a value"));
        let url = "https://example.com/hooks/T0KEN0FPATH?key=t0ken0fquery";
        let hidden = Hidden::of(&headers, Some(url), Some("http://relay:s3cretpass@proxy:8080"));
        let basic = STANDARD.encode("relay:s3cretpass");
        let said =
            format!("no: Bearer abcdefgh123 at /hooks/T0KEN0FPATH?key=t0ken0fquery, s3cretpass, {basic}");
        assert_eq!(hidden.masked(&said), "no: Bearer *** at /hooks/***?key=***, ***, ***");
        assert_eq!(hidden.masked("it breaks off in abcdefgh"), "it breaks off in ***");
        assert_eq!(hidden.masked("nothing of the kind"), "nothing of the kind");
        let open = Hidden::of(&HeaderMap::new(), None, None);
        assert_eq!(open.masked(&said), said, "what stands in the file openly is no secret");
    }
}
