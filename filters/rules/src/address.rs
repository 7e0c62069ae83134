//! Predicates about both ends of a client's connection.

use chain::session::Peer;
use std::net::IpAddr;

/// `client_addr`: where clients come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// One address.
    Exactly(IpAddr),
    /// A CIDR block (RFC 4632, RFC 4291): its address and the bits that count.
    Block(IpAddr, u8),
    /// Addresses whose text begins so.
    Prefix(String),
    /// Unix sockets.
    Local,
}

/// `proxy_addr`: where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// The host of a TCP listener, as an address.
    Address(IpAddr),
    /// The same as a name, or a unix socket with its `unix:`.
    Name(String),
}

impl Clients {
    /// Reads `10.1.2.3`, `10.0.0.0/8`, `10.1.%` and their like in IPv6, or `localhost`.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        if text == "localhost" {
            return Ok(Self::Local);
        }
        if let Some(prefix) = text.strip_suffix('%') {
            let fits = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':');
            let prefix = prefix.to_ascii_lowercase();
            return prefix.chars().all(fits).then_some(Self::Prefix(prefix)).ok_or(
                "before the % there is no beginning of an address: digits, dots and colons",
            );
        }
        let Some((address, bits)) = text.split_once('/') else {
            return text
                .parse::<IpAddr>()
                .map(|ip| Self::Exactly(ip.to_canonical()))
                .map_err(|_| "no address");
        };
        let address: IpAddr = address.parse().map_err(|_| "no address before the /")?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        match bits.parse::<u8>() {
            Ok(bits) if bits <= most => Ok(Self::Block(address, bits)),
            _ if most == 32 => Err("behind the / stands a number from 0 to 32"),
            _ => Err("behind the / stands a number from 0 to 128"),
        }
    }

    pub(crate) fn has(&self, peer: Peer) -> bool {
        let Peer::Tcp(ip, _) = peer else { return *self == Self::Local };
        let ip = ip.to_canonical();
        match self {
            Self::Exactly(address) => *address == ip,
            Self::Block(address, bits) => in_block(ip, *address, *bits),
            Self::Prefix(prefix) => ip.to_string().starts_with(prefix.as_str()),
            Self::Local => false,
        }
    }
}

fn in_block(ip: IpAddr, block: IpAddr, bits: u8) -> bool {
    let (width, ip, block) = match (ip, block) {
        (IpAddr::V4(ip), IpAddr::V4(block)) => (32, ip.to_bits().into(), block.to_bits().into()),
        (IpAddr::V6(ip), IpAddr::V6(block)) => (128, ip.to_bits(), block.to_bits()),
        _ => return false,
    };
    // A block of 0 bits has every address, and a shift by the whole width is none.
    (ip ^ block).checked_shr(width - u32::from(bits)).unwrap_or(0) == 0
}

impl Listener {
    /// Reads an address, a host's name or `unix:PATH`: what stands before the port in a listener's
    /// own address.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse() {
            return Ok(Self::Address(address));
        }
        match text.contains(['/', ':', ' ']) && !text.starts_with("unix:") {
            true => Err("no address of a listener without its port"),
            false => Ok(Self::Name(text.to_owned())),
        }
    }

    /// Whether it is the listener that is configured as `configured`.
    pub(crate) fn is(&self, configured: &str) -> bool {
        if configured.starts_with("unix:") {
            return matches!(self, Self::Name(name) if name == configured);
        }
        let host = configured.rsplit_once(':').map_or(configured, |(host, _)| host);
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        match self {
            Self::Address(address) => bare.parse().is_ok_and(|bare: IpAddr| bare == *address),
            Self::Name(name) => name == bare,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Clients, Listener, Peer};

    fn has(clients: &str, client: &str) -> bool {
        let peer = client.parse().map_or(Peer::Unix, |ip| Peer::Tcp(ip, 1));
        Clients::read(clients).expect("it is an address").has(peer)
    }

    #[test]
    fn clients_are_told_apart() {
        for (clients, inside, outside) in [
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.1.2.3", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.1.2.3/31", "10.1.2.2", "10.1.2.4"),
            ("10.1.2.3/32", "10.1.2.3", "10.1.2.2"),
            ("0.0.0.0/0", "255.1.1.1", "::1"),
            ("::/0", "fe80::1", "1.2.3.4"),
            ("fe80::/10", "febf::1", "fec0::1"),
            ("10.1.%", "10.1.200.3", "10.10.0.1"),
            ("fe80:%", "fe80::1", "fe8::1"),
            ("::1", "::1", "unix"),
            ("localhost", "unix", "127.0.0.1"),
            ("%", "1.2.3.4", "unix"),
        ] {
            assert!(has(clients, inside), "{clients} has {inside}");
            assert!(!has(clients, outside), "{clients} has not {outside}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "10.1.2", "10.1.2.3/33", "::/129", "10.0.0.0/", "/8", "a%b%", "x%", "host"]
        {
            assert!(Clients::read(text).is_err(), "{text:?}");
        }
        for text in ["10.0.0.1:6033", "/run/x.sock", "two words"] {
            assert!(Listener::read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn listeners_are_told_apart() {
        for (listener, configured, other) in [
            ("127.0.0.1", "127.0.0.1:6033", "127.0.0.2:6033"),
            ("::1", "[::1]:6033", "[::2]:6033"),
            ("[::1]", "[0:0::1]:6033", "127.0.0.1:6033"),
            ("db", "db:6033", "db2:6033"),
            ("unix:/run/a", "unix:/run/a", "unix:/run/b"),
        ] {
            let listener = Listener::read(listener).expect("it is an address");
            assert!(listener.is(configured) && !listener.is(other), "{configured}");
        }
    }
}
