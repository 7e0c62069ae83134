//! Who may say in front of a connection whose it is: `proxy_protocol` of a listener.

use chain::session::Peer;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt, net::IpAddr};

/// Load balancers that speak the PROXY protocol, version 1 or 2.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProxyProtocol {
    /// Addresses and networks (as in "10.0.0.0/8"). A TCP connection from there must begin with a
    /// header, whose client it then is; from elsewhere none is taken.
    pub from: Vec<Network>,
}

/// An address, or a block of them (CIDR: RFC 4632, RFC 4291).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    address: IpAddr,
    /// Leading bits that count.
    bits: u8,
}

impl ProxyProtocol {
    /// Whether a connection from `peer` begins with a header.
    pub(crate) fn expects_header(&self, peer: Peer) -> bool {
        let Peer::Tcp(address, _) = peer else { return false };
        self.from.iter().any(|network| network.has(address))
    }
}

impl Network {
    fn has(&self, address: IpAddr) -> bool {
        let (width, ours, theirs) = match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                (32, ours.to_bits().into(), theirs.to_bits().into())
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => (128, ours.to_bits(), theirs.to_bits()),
            _ => return false,
        };
        // A block of 0 bits has every address, and a shift by the whole width is none.
        (ours ^ theirs).checked_shr(width - u32::from(self.bits)).unwrap_or(0) == 0
    }
}

impl TryFrom<String> for Network {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text.as_str(), None),
        };
        let address: IpAddr = address.parse().map_err(|_| "this is not an IP address")?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits.map(str::parse) {
            None => width,
            Some(Ok(bits)) if bits <= width => bits,
            _ if width == 32 => return Err("behind the / stands a number from 0 to 32"),
            _ => return Err("behind the / stands a number from 0 to 128"),
        };
        Ok(Self { address, bits })
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl JsonSchema for Network {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Network".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "title": "network",
            "pattern": "^[0-9A-Fa-f.:]*[.:][0-9A-Fa-f.:]*(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?$",
            "examples": ["10.0.0.0/8", "192.0.2.1"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_told_apart() {
        for (network, inside, outside) in [
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.1.2.3", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("10.9.9.9/8", "10.255.0.1", "11.0.0.1"),
            ("10.1.2.3/31", "10.1.2.2", "10.1.2.4"),
            ("0.0.0.0/0", "255.1.1.1", "::1"),
            ("::/0", "fe80::1", "1.2.3.4"),
            ("fe80::/10", "febf::1", "fec0::1"),
            ("::1", "::1", "::2"),
        ] {
            let from = vec![Network::try_from(network.to_owned()).unwrap()];
            let has = |address: &str| {
                let peer = Peer::Tcp(address.parse().unwrap(), 1);
                ProxyProtocol { from: from.clone() }.expects_header(peer)
            };
            assert!(has(inside) && !has(outside), "{network}");
        }
        let everywhere = vec![Network::try_from("0.0.0.0/0".to_owned()).unwrap()];
        assert!(!ProxyProtocol { from: everywhere }.expects_header(Peer::Unix));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.1.2", "10.1.2.3/33", "::/129", "10.0.0.0/", "/8", "db", "1.2.3.4/-1"] {
            assert!(Network::try_from(text.to_owned()).is_err(), "{text:?}");
        }
    }
}
