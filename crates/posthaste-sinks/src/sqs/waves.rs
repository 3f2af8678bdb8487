//! Which messages go into one call: at most ten, of one queue, not too many bytes.

use super::message::Entry;

/// SQS takes ten per call.
const MAX_ENTRIES: usize = 10;

/// Splits a wave into calls, each as full as it gets without changing the order.
pub(super) fn batches(wave: Vec<Entry>, max_bytes: usize) -> Vec<Vec<Entry>> {
    let mut open: Vec<(usize, Vec<Entry>)> = Vec::new();
    let mut full = Vec::new();
    for entry in wave {
        let size = entry.size();
        let of_queue = open.iter().position(|(_, batch)| batch[0].queue_url == entry.queue_url);
        match of_queue {
            Some(at) if open[at].1.len() < MAX_ENTRIES && open[at].0 + size <= max_bytes => {
                open[at].0 += size;
                open[at].1.push(entry);
            }
            Some(at) => full.push(std::mem::replace(&mut open[at], (size, vec![entry])).1),
            None => open.push((size, vec![entry])),
        }
    }
    full.extend(open.into_iter().map(|(_, batch)| batch));
    full
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: usize, queue: &str, size: usize) -> Entry {
        let (queue_url, body) = (queue.to_owned(), "x".repeat(size));
        Entry { index, queue_url, body, attributes: Vec::new(), fifo: None }
    }

    fn shape(wave: Vec<Entry>) -> Vec<Vec<usize>> {
        batches(wave, 100).iter().map(|batch| batch.iter().map(|entry| entry.index).collect()).collect()
    }

    #[test]
    fn a_call_has_ten_messages_at_most() {
        let shape = shape((0..23).map(|n| entry(n, "q", 1)).collect());
        assert_eq!(shape.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 3]);
        assert_eq!(shape.concat(), (0..23).collect::<Vec<_>>());
    }

    #[test]
    fn a_call_has_not_too_many_bytes_and_one_queue() {
        let sizes = [60, 40, 1, 100, 50, 50];
        let wave = sizes.iter().enumerate().map(|(n, size)| entry(n, "q", *size));
        assert_eq!(shape(wave.collect()), [vec![0, 1], vec![2], vec![3], vec![4, 5]]);
        let wave = vec![entry(0, "a", 1), entry(1, "b", 1), entry(2, "a", 1)];
        assert_eq!(shape(wave), [vec![0, 2], vec![1]]);
    }
}
