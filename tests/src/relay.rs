//! A relay that notes what passes, cuts a connection at a chosen byte of either side's stream, or
//! vanishes without a word.
//!
//! Between a client and the proxy it is a client that vanishes; between the proxy and a server, a
//! server.

use anyhow::{Context, Result};
use socket2::{SockFilter, SockRef};
use std::{
    fmt, io,
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    sync::watch,
};

/// Whose stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// What comes from whoever has connected.
    Client,
    /// What comes from whom the relay connects to.
    Server,
}

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// As when a process ends.
    Fin,
    /// As when the machine is gone and another one has its address.
    Rst,
}

/// Where to cut: `side` vanishes once `after` bytes of its stream have been passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Who vanishes.
    pub side: Side,
    /// How many bytes it still says.
    pub after: usize,
    /// How it goes.
    pub how: How,
}

/// What has passed on one connection.
#[derive(Clone, Default, Debug)]
pub struct Passed {
    /// The client's bytes.
    pub client: Vec<u8>,
    /// The server's bytes.
    pub server: Vec<u8>,
}

/// A relay on a loopback port of its own. It ends with this value, and every connection with it.
#[derive(Debug)]
pub struct Relay {
    /// `host:port` where it listens.
    pub address: String,
    shared: Arc<Shared>,
    _runtime: Runtime,
}

/// After this time connections that have come meanwhile are ended too.
const AGAIN: Duration = Duration::from_millis(20);

/// What a connection that may still be open writes down.
type Noted = Arc<Mutex<Passed>>;

#[derive(Debug)]
struct Shared {
    target: String,
    /// How many connections stay whole before one takes the cut.
    cut: Mutex<Option<(usize, Cut)>>,
    /// Of each connection since the last [`Relay::forget`].
    passed: Mutex<Vec<Noted>>,
    /// Changes when all connections are to end.
    ending: watch::Sender<()>,
    /// Changes when all connections are to fall silent.
    silence: watch::Sender<()>,
    /// How many there are.
    open: (Mutex<usize>, Condvar),
    change: Change,
}

/// What becomes of the server's bytes, as they come.
struct Change(Box<Changing>);
type Changing = dyn Fn(&mut Vec<u8>) + Send + Sync;

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Change")
    }
}

impl Relay {
    /// A relay to `target`, a `host:port`.
    pub fn start(target: &str) -> Result<Self> {
        Self::changing(target, |_| {})
    }

    /// A relay that makes something else of the server's bytes.
    pub fn changing(
        target: &str,
        change: impl Fn(&mut Vec<u8>) + Send + Sync + 'static,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_io()
            .build()
            .context("no runtime for a relay")?;
        let shared = Arc::new(Shared {
            target: target.to_owned(),
            cut: Mutex::default(),
            passed: Mutex::default(),
            ending: watch::Sender::new(()),
            silence: watch::Sender::new(()),
            open: (Mutex::new(0), Condvar::new()),
            change: Change(Box::new(change)),
        });
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address: SocketAddr = listener.local_addr()?;
        runtime.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address: address.to_string(), shared, _runtime: runtime })
    }

    /// Cuts the connection that comes after the next `whole` ones.
    pub fn cut_after(&self, whole: usize, cut: Cut) {
        *lock(&self.shared.cut) = Some((whole, cut));
    }

    /// What has passed on each connection that was accepted since the last [`Relay::forget`].
    pub fn passed(&self) -> Vec<Passed> {
        lock(&self.shared.passed).iter().map(|passed| lock(passed).clone()).collect()
    }

    /// Forgets what has passed, and a cut that nobody has taken.
    pub fn forget(&self) {
        lock(&self.shared.passed).clear();
        *lock(&self.shared.cut) = None;
    }

    /// From now on nobody hears anything on the connections that there are: no byte, no end, and no
    /// acknowledgement either. So it is when a machine loses its power. Those that come later are
    /// relayed.
    pub fn fall_silent(&self) {
        self.shared.silence.send_replace(());
    }

    /// Ends all connections, those too that come meanwhile; returns when there is none.
    pub fn close_all(&self) {
        let (open, changed) = &self.shared.open;
        let mut left = lock(open);
        loop {
            self.shared.ending.send_replace(());
            if *left == 0 {
                return;
            }
            let waited = changed.wait_timeout(left, AGAIN);
            left = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let cut = shared.take_cut();
        let passed = Arc::new(Mutex::new(Passed::default()));
        lock(&shared.passed).push(Arc::clone(&passed));
        let mut ending = shared.ending.subscribe();
        *lock(&shared.open.0) += 1;
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            tokio::select! {
                _ = ending.changed() => {}
                // a broken connection is what this is for
                _ = relay(client, &shared, cut, &passed) => {}
            }
            *lock(&shared.open.0) -= 1;
            shared.open.1.notify_all();
        });
    }
}

impl Shared {
    /// The cut, if it is for the connection that has just come.
    fn take_cut(&self) -> Option<Cut> {
        let mut waiting = lock(&self.cut);
        match &mut *waiting {
            Some((0, _)) => waiting.take().map(|(_, cut)| cut),
            Some((whole, _)) => {
                *whole -= 1;
                None
            }
            None => None,
        }
    }
}

async fn relay(
    mut client: TcpStream,
    shared: &Shared,
    cut: Option<Cut>,
    passed: &Mutex<Passed>,
) -> io::Result<()> {
    let mut server = TcpStream::connect(&shared.target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let (mut passed_client, mut passed_server) = (0, 0);
    let mut silence = shared.silence.subscribe();
    let vanishes = |side, passed| cut.filter(|cut| cut.side == side && passed >= cut.after);
    loop {
        let gone = vanishes(Side::Client, passed_client);
        if let Some(cut) = gone.or_else(|| vanishes(Side::Server, passed_server)) {
            let (stays, vanished) = match cut.side {
                Side::Client => (server, client),
                Side::Server => (client, server),
            };
            // first whoever must not notice anything through the other one's end
            part(stays, cut.how).await;
            drop(vanished);
            return Ok(());
        }
        tokio::select! {
            _ = silence.changed() => {
                deafen(&client)?;
                deafen(&server)?;
                return std::future::pending().await;
            }
            length = client.read(&mut from_client) => {
                let length = limited(cut, Side::Client, passed_client, length?);
                passed_client += length;
                lock(passed).client.extend_from_slice(&from_client[..length]);
                server.write_all(&from_client[..length]).await?;
                if length == 0 && vanishes(Side::Client, passed_client).is_none() {
                    return Ok(());
                }
            }
            length = server.read(&mut from_server) => {
                let length = limited(cut, Side::Server, passed_server, length?);
                passed_server += length;
                lock(passed).server.extend_from_slice(&from_server[..length]);
                let mut changed = from_server[..length].to_vec();
                (shared.change.0)(&mut changed);
                client.write_all(&changed).await?;
                if length == 0 && vanishes(Side::Server, passed_server).is_none() {
                    return Ok(());
                }
            }
        }
    }
}

/// How many of `length` bytes still pass.
fn limited(cut: Option<Cut>, side: Side, passed: usize, length: usize) -> usize {
    let left = cut.filter(|cut| cut.side == side).map_or(usize::MAX, |cut| cut.after - passed);
    length.min(left)
}

/// Has the system drop all that comes from the peer before the connection sees it: nothing is
/// acknowledged, and no question whether it is there is answered.
fn deafen(stream: &TcpStream) -> io::Result<()> {
    /// `ret #0`: takes no byte of any packet.
    const NOTHING: SockFilter = SockFilter::new(0x06, 0, 0, 0);
    SockRef::from(stream).attach_filter(&[NOTHING])
}

async fn part(mut stream: TcpStream, how: How) {
    match how {
        How::Fin => {
            let _ = stream.shutdown().await;
        }
        How::Rst => {
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Cut, How, Relay, Side};
    use socket2::{SockRef, TcpKeepalive};
    use std::{
        io::{ErrorKind, Read, Write},
        net::{TcpListener, TcpStream},
        thread,
        time::Duration,
    };

    /// Whoever connects through a relay sends `hello`, and gets `answer` and the end from a server.
    fn exchange(cut: Option<Cut>) -> (Vec<u8>, Vec<u8>, Option<ErrorKind>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay::start(&listener.local_addr().unwrap().to_string()).unwrap();
        if let Some(cut) = cut {
            relay.cut_after(0, cut);
        }
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut heard = [0; 5];
            let mut length = 0;
            while length < 5 {
                match stream.read(&mut heard[length..]) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => length += read,
                }
            }
            let _ = stream.write_all(b"answer");
            heard[..length].to_vec()
        });
        let mut client = TcpStream::connect(&relay.address).unwrap();
        // the system tells of a reset once, whichever of the two hears it first
        let sent = client.write_all(b"hello");
        let mut answer = Vec::new();
        let failed = client.read_to_end(&mut answer).err().or(sent.err());
        (server.join().unwrap(), answer, failed.map(|error| error.kind()))
    }

    #[test]
    fn the_bytes_before_the_cut_and_no_other_arrive() {
        let (heard, answer, failed) = exchange(None);
        assert_eq!((&heard[..], &answer[..], failed), (&b"hello"[..], &b"answer"[..], None));
        for after in 0..5 {
            let (heard, ..) = exchange(Some(Cut { side: Side::Client, after, how: How::Fin }));
            assert_eq!(heard, b"hello"[..after]);
        }
        for after in 0..6 {
            let cut = Cut { side: Side::Server, after, how: How::Rst };
            let (_, answer, failed) = exchange(Some(cut));
            assert!(b"answer"[..after].starts_with(&answer), "{answer:?}");
            assert_eq!(failed, Some(ErrorKind::ConnectionReset));
        }
    }

    /// A connection that falls silent does not end: its peers find out by themselves.
    #[test]
    fn silence() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay::start(&listener.local_addr().unwrap().to_string()).unwrap();
        let mut client = TcpStream::connect(&relay.address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut byte = [0];
        client.write_all(b"1").unwrap();
        server.read_exact(&mut byte).unwrap();
        relay.fall_silent();
        let (second, asked) = (Duration::from_secs(1), TcpKeepalive::new());
        let asked = asked.with_time(second).with_interval(second).with_retries(1);
        for mut peer in [client, server] {
            SockRef::from(&peer).set_tcp_keepalive(&asked).unwrap();
            assert_eq!(peer.read(&mut byte).unwrap_err().kind(), ErrorKind::TimedOut);
        }
    }
}
