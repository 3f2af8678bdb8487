//! The producer: its settings, its log, its successor when it is spoilt, and the calls of it that block.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::metadata::Metadata;
use rdkafka::producer::{FutureProducer, Producer};
use rdkafka::types::RDKafkaErrorCode as Code;

use crate::tls::Tls;

use super::settings::{KafkaSettings, Login};

/// librdkafka's log goes to `tracing`. What it says of its connections is kept: a timed-out record does not know why.
#[derive(Debug, Clone, Default)]
pub(super) struct Log {
    last_trouble: Arc<Mutex<Option<String>>>,
}

impl Log {
    /// The last trouble with the cluster, for reasons.
    pub(super) fn last_trouble(&self) -> Option<String> {
        lock(&self.last_trouble).clone()
    }

    /// It works again.
    pub(super) fn forget(&self) {
        lock(&self.last_trouble).take();
    }
}

impl ClientContext for Log {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning => tracing::warn!(target: "librdkafka", facility, "{message}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, "{reason}");
        let mut last = lock(&self.last_trouble);
        // That all brokers are down comes last and says least.
        if last.is_none() || error.rdkafka_error_code() != Some(Code::AllBrokersDown) {
            last.replace(reason.to_owned());
        }
    }
}

/// A producer. Letting go of it waits for its threads, so that is done elsewhere.
pub(super) struct Handle {
    producer: Option<FutureProducer<Log>>,
    /// Counts producers, so that a spoilt one is replaced once, whoever notices.
    pub(super) generation: u64,
}

impl Handle {
    pub(super) fn producer(&self) -> &FutureProducer<Log> {
        self.producer.as_ref().unwrap_or_else(|| unreachable!("it is taken only by drop"))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let producer = self.producer.take();
        std::thread::spawn(move || drop(producer));
    }
}

/// The producer of a sink.
pub(super) struct Client {
    config: ClientConfig,
    pub(super) log: Log,
    current: Mutex<Arc<Handle>>,
}

impl Client {
    /// Nothing waits for the cluster. The error is a sentence.
    pub(super) fn new(settings: &KafkaSettings) -> Result<Self, String> {
        let (config, log) = (config(settings), Log::default());
        let first = open(&config, &log, 1).map_err(|error| format!("kafka: {error}"))?;
        Ok(Self { config, log, current: Mutex::new(Arc::new(first)) })
    }

    pub(super) fn current(&self) -> Arc<Handle> {
        lock(&self.current).clone()
    }

    /// Another client with the same settings, such as one for administration.
    pub(super) fn another<T: FromClientConfigAndContext<Log>>(&self) -> KafkaResult<T> {
        self.config.create_with_context(self.log.clone())
    }

    /// Replaces a spoilt producer, unless that has been done.
    pub(super) fn replace(&self, spoilt: u64) -> KafkaResult<()> {
        let mut current = lock(&self.current);
        if current.generation == spoilt {
            tracing::warn!(target: "librdkafka", "the producer is spoilt; going on with a new one");
            *current = Arc::new(open(&self.config, &self.log, spoilt + 1)?);
        }
        Ok(())
    }

    /// Asks the cluster about a topic, or about all. Blocks.
    pub(super) fn metadata(&self, topic: Option<&str>, within: Duration) -> KafkaResult<Metadata> {
        self.current().producer().client().fetch_metadata(topic, within)
    }
}

fn open(config: &ClientConfig, log: &Log, generation: u64) -> KafkaResult<Handle> {
    let producer = config.create_with_context(log.clone())?;
    Ok(Handle { producer: Some(producer), generation })
}

/// What can be overridden, then what was overridden, then what cannot.
fn config(settings: &KafkaSettings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set_log_level(match settings.extra.contains_key("debug") {
        true => RDKafkaLogLevel::Debug,
        false => RDKafkaLogLevel::Info,
    });
    config
        .set("client.id", "posthaste")
        // An event waits for nobody: while a request is under way the next one fills by itself.
        .set("linger.ms", "0")
        // The partition that Java's clients choose.
        .set("partitioner", "murmur2_random")
        .set("batch.size", settings.max_message_bytes.min(1_000_000).to_string());
    config.extend(settings.extra.clone());
    set_guarantees(&mut config, settings);
    set_deadlines(&mut config, settings.timeout);
    set_security(&mut config, settings.login.as_ref(), &settings.tls);
    config
}

fn set_guarantees(config: &mut ClientConfig, settings: &KafkaSettings) {
    config
        .set("bootstrap.servers", settings.brokers.join(","))
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("message.max.bytes", settings.max_message_bytes.to_string());
}

/// By default librdkafka needs 18 s to notice that all brokers are gone and up to 10 s to notice that they are back.
fn set_deadlines(config: &mut ClientConfig, timeout: Duration) {
    let part = |eighths: u128| (timeout.as_millis() * eighths / 8).to_string();
    config
        .set("message.timeout.ms", part(8))
        .set("request.timeout.ms", part(5))
        .set("socket.timeout.ms", part(6))
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "250")
        // An unknown topic is told from a slow cluster well before the record times out.
        .set("topic.metadata.propagation.max.ms", part(3));
}

fn set_security(config: &mut ClientConfig, login: Option<&Login>, tls: &Tls) {
    config.set(
        "security.protocol",
        match (login.is_some(), tls.on) {
            (false, false) => "plaintext",
            (false, true) => "ssl",
            (true, false) => "sasl_plaintext",
            (true, true) => "sasl_ssl",
        },
    );
    if let Some(Login { username, password, mechanism }) = login {
        config
            .set("sasl.mechanism", mechanism.as_str())
            .set("sasl.username", username)
            .set("sasl.password", password.expose());
    }
    if let Some(file) = &tls.ca_file {
        config.set("ssl.ca.location", file.to_string_lossy());
    }
    if let Some((certificate, key)) = &tls.identity {
        config.set("ssl.certificate.location", certificate.to_string_lossy());
        config.set("ssl.key.location", key.to_string_lossy());
    }
    if tls.on {
        config.set("enable.ssl.certificate.verification", "true");
        config.set("ssl.endpoint.identification.algorithm", "https");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
