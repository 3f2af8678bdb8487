//! Which addresses a webhook may reach. Whoever can write a webhook's URL must not be able to make the relay talk to
//! machines that only the relay can see, so everything but the public internet is refused unless somebody allows it.
//!
//! Names are checked after DNS, on the very addresses that are connected to: a name that changes its mind between a
//! check and the connection gains nothing.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Why an address is refused, as in `127.0.0.1 is a loopback address`; `None` if it is public.
pub(super) fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => refusal_v4(address),
        IpAddr::V6(address) => refusal_v6(address),
    }
}

/// The special registries of IANA, and one public address at which a cloud answers its own machines.
fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "an unspecified address",
        [127, ..] => "a loopback address",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address",
        [100, 64..=127, ..] => "an address of a carrier-grade NAT",
        [169, 254, 169, 254] | [168, 63, 129, 16] => "a cloud's metadata address",
        [169, 254, ..] => "a link-local address",
        [192, 0, 0, _] | [192, 88, 99, _] => "an address set aside for protocols",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "an address for documentation",
        [198, 18..=19, ..] => "an address for benchmarks",
        [224..=239, ..] => "a multicast address",
        [240..=255, ..] => "a reserved address",
        _ => return None,
    })
}

/// Global unicast is 2000::/3. Outside of it only the forms that stand for a public IPv4 address pass. 6to4 and Teredo
/// are refused whatever they embed: nobody runs a receiver there.
fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    let embedded = || {
        let [.., high, low] = segments;
        Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
    };
    Some(match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => "an unspecified address",
        [0, 0, 0, 0, 0, 0, 0, 1] => "a loopback address",
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => return refusal_v4(embedded()),
        [0, ..] | [0x64, 0xff9b, ..] => "an IPv4 address in disguise",
        [0x2001, 0..=0x1ff, ..] => "an address set aside for protocols",
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => "an address for documentation",
        [0x2002, ..] => "an IPv4 address in disguise",
        [0xfc00..=0xfdff, ..] => "a unique-local address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xff00..=0xffff, ..] => "a multicast address",
        [0x2000..=0x3fff, ..] => return None,
        _ => "a reserved address",
    })
}

/// What a name means, as a rule the system's answer.
pub(super) type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// Asks the system.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move { tokio::net::lookup_host((name.as_str(), 0)).await.map(Iterator::collect) })
    })
}

/// Hands to the client only addresses that may be reached.
pub(super) struct Guard {
    pub(super) lookup: Lookup,
    pub(super) allow_private: bool,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let (looking, allow_private) = ((self.lookup)(name.as_str().to_owned()), self.allow_private);
        Box::pin(async move {
            let found = looking.await.map_err(|error| format!("{}: {error}", name.as_str()))?;
            let allowed = if allow_private { found } else { public_only(name.as_str(), found)? };
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// A name that means both a public and a private address is reached at the public one.
fn public_only(name: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refused> {
    let first = found.first().copied();
    let public: Vec<SocketAddr> =
        found.into_iter().filter(|address| refusal(address.ip()).is_none()).collect();
    match first.filter(|_| public.is_empty()) {
        Some(first) => Err(Refused { name: name.to_owned(), address: first.ip() }),
        None => Ok(public),
    }
}

/// A name that leads only where webhooks must not go.
#[derive(Debug)]
struct Refused {
    name: String,
    address: IpAddr,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, address) = (&self.name, self.address);
        let kind = refusal(address).unwrap_or("not allowed");
        write!(f, "not connected: {name} is {address}, {kind}; set allow_private = true if that is meant")
    }
}

impl Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_public_internet_is_refused() {
        for (kind, addresses) in [
            ("unspecified", "0.0.0.0 0.1.2.3 :: ::ffff:0.0.0.0"),
            ("loopback", "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 64:ff9b::127.0.0.1"),
            ("private", "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 ::ffff:10.1.2.3 64:ff9b::c0a8:101"),
            ("carrier-grade", "100.64.0.1 100.127.255.255 100.100.100.200"),
            ("metadata", "169.254.169.254 168.63.129.16 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe"),
            ("link-local", "169.254.0.1 fe80::1 febf::1"),
            ("set aside", "192.0.0.192 192.88.99.1 2001::1 2001:2::1 2001:10::1 2001:20::1"),
            ("documentation", "192.0.2.1 198.51.100.7 203.0.113.9 2001:db8::1 3fff::1"),
            ("benchmarks", "198.18.0.1 198.19.255.255"),
            ("multicast", "224.0.0.1 239.255.255.255 ff02::1 ff0e::1"),
            ("reserved", "240.0.0.1 255.255.255.255 100::1 4000::1 5f00::1 fec0::1"),
            ("disguise", "::7f00:1 ::10.0.0.1 ::ffff:0:127.0.0.1 64:ff9b:1::1 2002:7f00:1:: 2002:a00:1::1"),
            ("unique-local", "fc00::1 fd00:ec2::254"),
        ] {
            for address in addresses.split(' ') {
                let said = refusal(address.parse().expect(address));
                assert!(said.is_some_and(|said| said.contains(kind)), "{address}: {said:?}, not {kind}");
            }
        }
    }

    #[test]
    fn public_addresses_pass() {
        for address in
            "1.1.1.1 8.8.8.8 100.63.0.1 100.128.0.1 172.15.0.1 172.32.0.1 192.0.1.1 198.17.0.1 198.20.0.1 \
            223.255.255.255 2606:4700::1111 2001:4860:4860::8888 2001:200::1 ::ffff:8.8.8.8 64:ff9b::808:808"
                .split_whitespace()
        {
            assert_eq!(refusal(address.parse().expect(address)), None, "{address}");
        }
    }

    /// A name that means a public address whenever somebody looks, and this machine a moment later.
    #[tokio::test]
    async fn a_name_that_changes_its_mind_is_judged_by_each_answer() {
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counting = asked.clone();
        let lookup: Lookup = Arc::new(move |_| {
            let even = counting.fetch_add(1, std::sync::atomic::Ordering::SeqCst).is_multiple_of(2);
            let answer =
                addresses(if even { &["8.8.8.8"] } else { &["127.0.0.1", "::1", "169.254.169.254"] });
            Box::pin(async move { Ok(answer) })
        });
        let guard = Guard { lookup, allow_private: false };
        for round in 0..10 {
            let resolved = guard.resolve("rebind.example".parse().expect("a name")).await;
            match resolved {
                Ok(found) => assert_eq!((round % 2, found.collect()), (0, addresses(&["8.8.8.8"]))),
                Err(error) => assert!(round % 2 == 1 && error.to_string().contains("loopback"), "{error}"),
            }
        }
        assert_eq!(
            asked.load(std::sync::atomic::Ordering::SeqCst),
            10,
            "what was judged is what is connected to"
        );
    }

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| SocketAddr::new(text.parse().expect("an address"), 0)).collect()
    }

    #[test]
    fn a_name_with_a_public_and_a_private_address_is_reached_at_the_public_one() {
        let found = addresses(&["10.0.0.1", "8.8.8.8", "::1", "2606:4700::1111"]);
        assert_eq!(public_only("x", found).expect("some"), addresses(&["8.8.8.8", "2606:4700::1111"]));
        let refused =
            public_only("intern.example", addresses(&["169.254.169.254", "::1"])).expect_err("none");
        assert_eq!(
            refused.to_string(),
            "not connected: intern.example is 169.254.169.254, a cloud's metadata address; set allow_private = true \
             if that is meant"
        );
    }
}
