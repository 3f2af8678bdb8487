//! librdkafka's mock cluster as a program of its own: three brokers on ports of 127.0.0.1, everything in memory.
//!
//! Prints the addresses, then takes one command per line from standard input and answers each with `ok` or a sentence:
//!
//! ```text
//! down                        all brokers refuse connections
//! up                          and accept them again
//! topic NAME PARTITIONS       creates a topic
//! error produce NAME COUNT    the next COUNT produce requests fail, as in: error produce MSG_SIZE_TOO_LARGE 1
//! error metadata TOPIC NAME   metadata of a topic say so from now on; NO_ERROR ends it
//! leader TOPIC PARTITION WHO  gives a partition to a broker, 1 to 3, or to nobody: 0
//! delay MILLIS                every answer takes so long
//! ```
//!
//! It ends when its input ends, so it never outlives whoever started it. A topic that nobody created is created by the
//! first who asks for it. A partition keeps its last 5 MiB.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

const BROKERS: i32 = 3;

type Cluster = MockCluster<'static, DefaultProducerContext>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = MockCluster::new(BROKERS)?;
    say(&cluster.bootstrap_servers())?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        say(&obey(&cluster, &words).map_or_else(|sentence| sentence, |()| "ok".to_owned()))?;
    }
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn obey(cluster: &Cluster, words: &[&str]) -> Result<(), String> {
    let done = match words {
        ["down"] => (1..=BROKERS).try_for_each(|broker| cluster.broker_down(broker)),
        ["up"] => (1..=BROKERS).try_for_each(|broker| cluster.broker_up(broker)),
        ["topic", name, partitions] => cluster.create_topic(name, number(partitions)?, BROKERS),
        ["error", "produce", name, count] => {
            let errors = vec![error(name)?; number(count)?];
            cluster.request_errors(RDKafkaApiKey::Produce, &errors);
            Ok(())
        }
        ["error", "metadata", topic, name] => cluster.topic_error(topic, error(name)?),
        ["leader", topic, partition, broker] => {
            let broker = Some(number(broker)?).filter(|broker| *broker > 0);
            cluster.partition_leader(topic, number(partition)?, broker)
        }
        ["delay", millis] => {
            let delay = Duration::from_millis(number(millis)?);
            (1..=BROKERS).try_for_each(|broker| cluster.broker_round_trip_time(broker, delay))
        }
        _ => return Err(format!("there is no command `{}`", words.join(" "))),
    };
    done.map_err(|error| error.to_string())
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("expected a number, got `{text}`"))
}

fn error(name: &str) -> Result<RDKafkaRespErr, String> {
    use RDKafkaRespErr as E;
    let errors = [
        ("NO_ERROR", E::RD_KAFKA_RESP_ERR_NO_ERROR),
        ("TRANSPORT", E::RD_KAFKA_RESP_ERR__TRANSPORT),
        ("MSG_SIZE_TOO_LARGE", E::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE),
        ("RECORD_LIST_TOO_LARGE", E::RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE),
        ("INVALID_RECORD", E::RD_KAFKA_RESP_ERR_INVALID_RECORD),
        ("POLICY_VIOLATION", E::RD_KAFKA_RESP_ERR_POLICY_VIOLATION),
        ("INVALID_TIMESTAMP", E::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP),
        ("TOPIC_AUTHORIZATION_FAILED", E::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED),
        ("CLUSTER_AUTHORIZATION_FAILED", E::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED),
        ("UNKNOWN_TOPIC_OR_PART", E::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART),
        ("NOT_LEADER_FOR_PARTITION", E::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION),
        ("NOT_ENOUGH_REPLICAS", E::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", E::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        ("REQUEST_TIMED_OUT", E::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT),
        ("KAFKA_STORAGE_ERROR", E::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", E::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER),
        ("UNKNOWN_PRODUCER_ID", E::RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID),
        ("INVALID_PRODUCER_EPOCH", E::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH),
        ("UNKNOWN", E::RD_KAFKA_RESP_ERR_UNKNOWN),
    ];
    let found = errors.iter().find(|(known, _)| *known == name);
    found.map(|(_, error)| *error).ok_or_else(|| format!("there is no error `{name}`"))
}
