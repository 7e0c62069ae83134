//! One script directly and through the proxy, compared byte for byte.

use crate::{Client, Cluster, Login, Proxy, client::Reply};
use anyhow::{Context, Result, bail};

/// What a script received, in order.
#[derive(Debug, Default)]
pub struct Transcript(Vec<(String, Vec<u8>)>);

impl Transcript {
    /// Notes the code of an error whose text holds a statement's id, which is the connection's.
    pub fn add_code(&mut self, label: &str, reply: &Reply) {
        self.0.push((label.to_owned(), format!("{:?}", reply.end.error).into_bytes()));
    }

    /// Notes a reply.
    pub fn add(&mut self, label: &str, reply: &Reply) {
        self.0.push((label.to_owned(), reply.raw.clone()));
    }
}

/// Runs `script` twice, each time in an empty schema that is the session's: directly against the
/// primary, then through `proxy`. Every byte that it noted must be the same.
pub fn same(
    cluster: &Cluster,
    proxy: &Proxy,
    login: &Login,
    script: impl Fn(&mut Client, &mut Transcript) -> Result<()>,
) -> Result<()> {
    let schema = cluster.schema()?;
    let login = login.clone().schema(&schema.name);
    let run = |address: &str| -> Result<Transcript> {
        schema.clear()?;
        let mut transcript = Transcript::default();
        let mut client = Client::connect(address, &login)?;
        script(&mut client, &mut transcript)
            .with_context(|| format!("after {:?}", transcript.0.last().map(|(label, _)| label)))?;
        client.quit()?;
        Ok(transcript)
    };
    let direct = run(&cluster.addresses[0]).context("directly")?;
    let proxied = run(&proxy.address).context("through the proxy")?;
    compare(&direct, &proxied)
}

fn compare(direct: &Transcript, proxied: &Transcript) -> Result<()> {
    if direct.0.is_empty() {
        bail!("the script noted nothing");
    }
    if direct.0.len() != proxied.0.len() {
        bail!("{} replies directly, {} through the proxy", direct.0.len(), proxied.0.len());
    }
    for ((label, direct), (_, proxied)) in direct.0.iter().zip(&proxied.0) {
        if direct == proxied {
            continue;
        }
        let same = direct.iter().zip(proxied).take_while(|(a, b)| a == b).count();
        let label: String = label.chars().take(80).collect();
        bail!(
            "{label:?} differs from byte {same} on ({} bytes directly, {} through the proxy)\n  \
             directly {}\n  proxied  {}",
            direct.len(),
            proxied.len(),
            around(direct, same),
            around(proxied, same)
        );
    }
    Ok(())
}

/// The bytes around a place, for a person to read.
fn around(bytes: &[u8], place: usize) -> String {
    let from = place.saturating_sub(24);
    let to = (place + 60).min(bytes.len());
    bytes.get(from..to).unwrap_or_default().escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::{Transcript, compare};

    fn transcript(replies: &[&[u8]]) -> Transcript {
        Transcript(replies.iter().map(|raw| ("SELECT".to_owned(), raw.to_vec())).collect())
    }

    #[test]
    fn one_byte_is_a_difference() {
        let direct = transcript(&[b"abc", b"defg"]);
        assert!(compare(&direct, &transcript(&[b"abc", b"defg"])).is_ok());
        let error = compare(&direct, &transcript(&[b"abc", b"deFg"])).unwrap_err().to_string();
        assert!(error.contains("byte 2"), "{error}");
        assert!(compare(&direct, &transcript(&[b"abc", b"defgh"])).is_err());
        assert!(compare(&direct, &transcript(&[b"abc"])).is_err());
        assert!(compare(&transcript(&[]), &transcript(&[])).is_err(), "nothing was compared");
    }
}
