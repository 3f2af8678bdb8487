//! Names that people mistype.

use posthaste::admin::SubscriptionState;
use posthaste::{Admin, Error};

use crate::failure::Failure;

/// A subscription that is there; otherwise a sentence that says which are.
pub(crate) async fn known(admin: &Admin, name: &str) -> Result<SubscriptionState, Failure> {
    match admin.subscription(name).await {
        Err(Error::NoSuchSubscription(_)) => {
            let states = admin.clone().counting_to(1).subscriptions().await?;
            Err(Failure::not_found(unknown(name, states.iter().map(|state| state.name.as_str()))))
        }
        found => Ok(found?),
    }
}

/// Those that were named, or all.
pub(crate) async fn chosen(admin: &Admin, names: &[String]) -> Result<Vec<SubscriptionState>, Failure> {
    if names.is_empty() {
        return Ok(admin.subscriptions().await?);
    }
    let mut states = Vec::new();
    for name in names {
        states.push(known(admin, name).await?);
    }
    Ok(states)
}

fn unknown<'a>(name: &str, there: impl Iterator<Item = &'a str>) -> String {
    let there: Vec<&str> = there.collect();
    let begun = |other: &str| !name.is_empty() && other.starts_with(name);
    let far = |other: &str| if begun(other) { 0 } else { distance(name, other) };
    let near = there.iter().map(|other| (far(other), *other)).min();
    let hint = match near {
        Some((far, other)) if far <= 2.max(name.len() / 3) => format!("did you mean `{other}`?"),
        Some(_) if there.len() <= 10 => format!("there are {}", there.join(", ")),
        Some(_) => "`posthaste subscriptions list` shows all of them".to_owned(),
        None => "there are none yet; one appears when a worker starts for it".to_owned(),
    };
    format!("there is no subscription `{}`; {hint}", super::out::clean(name))
}

/// How many characters must be changed, added, removed or exchanged with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) =
        (one.to_lowercase().chars().collect(), other.to_lowercase().chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_proposed_and_a_far_one_is_not() {
        let say = |name| unknown(name, ["billing", "shipping"].into_iter());
        assert!(say("biling").ends_with("did you mean `billing`?"));
        assert!(say("Shipping").ends_with("did you mean `shipping`?"));
        assert!(say("ship").ends_with("did you mean `shipping`?"));
        assert!(say("shippign").ends_with("did you mean `shipping`?"));
        assert!(say("warehouse").ends_with("there are billing, shipping"));
        assert!(unknown("x", std::iter::empty()).contains("there are none yet"));
    }
}
