//! From what the server or the client library says to an outcome: the table of `rabbitmq`, in code.

use lapin::{Confirmation, Error, ErrorKind};
use posthaste::Outcome;

/// AMQP's reply codes that say something about one message or its address.
const CONTENT_TOO_LARGE: u16 = 311;
const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const PRECONDITION_FAILED: u16 = 406;

/// Where a message was to go, and which part of that is the same for every event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address<'m> {
    pub(super) exchange: &'m str,
    pub(super) routing_key: &'m str,
    pub(super) fixed_exchange: bool,
    pub(super) fixed_routing_key: bool,
}

impl Address<'_> {
    /// Every event goes there.
    fn fixed(&self) -> bool {
        self.fixed_exchange && self.fixed_routing_key
    }

    fn words(&self) -> String {
        match self.exchange {
            "" => format!("the queue `{}`", self.routing_key),
            exchange => format!("exchange `{exchange}` with routing key `{}`", self.routing_key),
        }
    }
}

/// Wrong for every event: wait until it is put right. Wrong for this one: retry it, and let the others go on.
fn misdirected(fixed: bool, reason: String) -> Outcome {
    if fixed { Outcome::unavailable(reason) } else { Outcome::retry(reason) }
}

/// What a confirmation means. A returned message is acknowledged too, so the acknowledgement alone means nothing.
pub(super) fn of_confirmation(confirmation: &Confirmation, address: Address<'_>) -> Outcome {
    match confirmation {
        Confirmation::Ack(None) => Outcome::Delivered,
        Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)) => {
            let (code, text) = (returned.reply_code, returned.reply_text.as_str());
            let remedy = match address.exchange {
                "" => "declare that queue",
                _ => "bind a queue",
            };
            misdirected(
                address.fixed(),
                format!("{} leads nowhere ({code} {text}); {remedy}", address.words()),
            )
        }
        // Which queue that was is not said; with another routing key it may be another one.
        Confirmation::Nack(None) => misdirected(
            address.fixed(),
            format!("{} did not accept the message: a queue there is full or failed", address.words()),
        ),
        Confirmation::NotRequested => Outcome::unavailable("the channel does not confirm"),
    }
}

/// What an error means.
pub(super) fn of_error(error: &Error, address: Address<'_>) -> Outcome {
    let ErrorKind::ProtocolError(refusal) = error.kind() else {
        return Outcome::unavailable(format!("no confirmation: {error}"));
    };
    let text = refusal.get_message();
    match refusal.get_id() {
        NOT_FOUND => misdirected(
            address.fixed_exchange,
            format!("there is no exchange `{}` ({text}); declare it", address.exchange),
        ),
        ACCESS_REFUSED => misdirected(
            address.fixed_exchange && (address.fixed_routing_key || !is_about_routing_key(text.as_str())),
            format!("not allowed to write to {}: {text}", address.words()),
        ),
        CONTENT_TOO_LARGE | PRECONDITION_FAILED => {
            Outcome::dead(format!("the server refused the message: {text}"))
        }
        code => Outcome::unavailable(format!("the server closed the channel: {code} {text}")),
    }
}

/// Topic permissions allow some routing keys of an exchange; all others are about the exchange. Only the text tells.
fn is_about_routing_key(text: &str) -> bool {
    text.contains("access to topic '")
}

#[cfg(test)]
mod tests {
    use std::io;

    use lapin::protocol::{AMQPError, AMQPErrorKind};

    use super::*;

    const FIXED: Address<'_> =
        Address { exchange: "shop", routing_key: "all", fixed_exchange: true, fixed_routing_key: true };
    const MADE: Address<'_> = Address { fixed_exchange: false, fixed_routing_key: false, ..FIXED };
    const KEY_MADE: Address<'_> = Address { fixed_routing_key: false, ..FIXED };

    fn refusal(code: u16) -> Error {
        refusal_with(code, "SAID BY THE SERVER")
    }

    fn refusal_with(code: u16, text: &str) -> Error {
        let kind = AMQPErrorKind::from_id(code).expect("a reply code");
        ErrorKind::ProtocolError(AMQPError::new(kind, text.into())).into()
    }

    fn word(outcome: &Outcome) -> &'static str {
        match outcome {
            Outcome::Delivered => "delivered",
            Outcome::Retry { .. } => "retry",
            Outcome::Dead { .. } => "dead",
            _ => "unavailable",
        }
    }

    #[test]
    fn every_row_of_the_table_that_is_an_error() {
        let lost = || Error::from(io::Error::from(io::ErrorKind::ConnectionReset));
        let rows = [
            (refusal(NOT_FOUND), "unavailable", "retry"),
            (refusal(ACCESS_REFUSED), "unavailable", "retry"),
            (refusal(PRECONDITION_FAILED), "dead", "dead"),
            (refusal(CONTENT_TOO_LARGE), "dead", "dead"),
            (refusal(405), "unavailable", "unavailable"),
            (refusal(320), "unavailable", "unavailable"),
            (refusal(501), "unavailable", "unavailable"),
            (refusal(541), "unavailable", "unavailable"),
            (lost(), "unavailable", "unavailable"),
            (ErrorKind::MissingHeartbeatError.into(), "unavailable", "unavailable"),
            (ErrorKind::ChannelsLimitReached.into(), "unavailable", "unavailable"),
        ];
        for (error, fixed, made) in rows {
            assert_eq!(word(&of_error(&error, FIXED)), fixed, "{error}");
            assert_eq!(word(&of_error(&error, MADE)), made, "{error}");
        }
        // The rows with a returned message run against the server: only it can make one.
        assert_eq!(of_confirmation(&Confirmation::Ack(None), FIXED), Outcome::Delivered);
        assert_eq!(word(&of_confirmation(&Confirmation::NotRequested, FIXED)), "unavailable");
        for (address, expected) in [(FIXED, "unavailable"), (KEY_MADE, "retry"), (MADE, "retry")] {
            assert_eq!(word(&of_confirmation(&Confirmation::Nack(None), address)), expected, "{address:?}");
        }
    }

    #[test]
    fn a_right_that_is_missing_for_a_routing_key_says_nothing_about_the_others() {
        let exchange = refusal_with(ACCESS_REFUSED, "write access to exchange 'shop' in vhost '/' refused");
        let key = refusal_with(ACCESS_REFUSED, "write access to topic 'all' in exchange 'shop' refused");
        for (address, of_exchange, of_key) in [
            (FIXED, "unavailable", "unavailable"),
            (KEY_MADE, "unavailable", "retry"),
            (MADE, "retry", "retry"),
        ] {
            assert_eq!(word(&of_error(&exchange, address)), of_exchange, "{address:?}");
            assert_eq!(word(&of_error(&key, address)), of_key, "{address:?}");
        }
    }
}
