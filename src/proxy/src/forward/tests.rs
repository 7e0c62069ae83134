//! Both ends of a forwarded session, on sockets of this process.

use super::{Ended, Grace, Start, join};
use crate::{
    metrics::{Forwarded, Metrics},
    session::{Client, budget::Budget},
    signal::Signal,
    stream::Stream,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream, UnixStream},
    task::JoinHandle,
};
use wire::{
    capability::Capabilities,
    command::CommandCode,
    packet::{Message, put_packet},
};

const SOON: Grace = Grace(Duration::from_millis(20));
/// Longer than any test waits.
const NEVER: Grace = Grace(Duration::from_secs(3600));

/// A session that is being forwarded, with its client's end and its server's.
struct Bed<C, S> {
    client: C,
    server: S,
    metrics: Arc<Metrics>,
    ended: JoinHandle<std::io::Result<Ended>>,
}

impl<C, S> Bed<C, S> {
    fn forwarded(&self) -> &Forwarded {
        &self.metrics.forwarded
    }
}

fn bed<C, S>(
    (client, to_client): (C, impl Into<Stream>),
    (server, to_server): (S, impl Into<Stream>),
    start: Start,
    grace: Grace,
) -> Bed<C, S> {
    let metrics = Metrics::new(Default::default(), &Default::default());
    let mut near = Client::new(to_client.into(), &Budget::new(0));
    let (mut far, counts) = (to_server.into(), metrics.clone());
    let ended = tokio::spawn(async move {
        let offline = Signal::default();
        join(&mut near, &mut far, start, &offline, grace, &counts.forwarded).await
    });
    Bed { client, server, metrics, ended }
}

fn unix() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("two sockets")
}

/// A connection whose second end takes this many bytes without anybody reading them.
async fn tcp(room: u32) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(room).expect("a size");
    let address = listener.local_addr().expect("it is bound");
    let (near, far) = tokio::join!(socket.connect(address), listener.accept());
    (far.expect("somebody connects").0, near.expect("somebody listens"))
}

fn observed() -> Start {
    let capabilities = Capabilities::PROTOCOL_41.union(Capabilities::DEPRECATE_EOF);
    Start { observe: true, capabilities, ..Start::default() }
}

/// Sends `sent` from one end in pieces, and gives what arrives at the other.
async fn through(
    from: &mut (impl AsyncWriteExt + Unpin),
    to: &mut (impl AsyncReadExt + Unpin),
    sent: &[u8],
) -> Vec<u8> {
    let mut got = vec![0; sent.len()];
    let write = async {
        for piece in sent.chunks(1111) {
            from.write_all(piece).await.expect("it is open");
        }
    };
    let (_, read) = tokio::join!(write, to.read_exact(&mut got));
    read.expect("all arrives");
    got
}

#[tokio::test]
async fn a_client_that_reads_nothing_has_its_time_as_well() {
    let mut bed = bed(unix(), tcp(1 << 20).await, Start::default(), SOON);
    // More than the client's socket holds, less than the server's.
    let sent = vec![b'x'; 600_000];
    bed.server.write_all(&sent).await.expect("there is room");
    drop(bed.server);
    assert_eq!(bed.ended.await.expect("no panic").expect("no error"), Ended::Late);
    let forwarded = &bed.metrics.forwarded;
    assert!(forwarded.lost.get() > 0);
    assert_eq!(forwarded.down.get() + forwarded.lost.get(), sent.len() as u64);
    let mut got = Vec::new();
    bed.client.read_to_end(&mut got).await.expect("what it was given before is there");
    assert_eq!(got.len() as u64, forwarded.down.get());
}

#[tokio::test]
async fn a_client_that_reads_after_a_while_gets_everything() {
    let mut bed = bed(unix(), tcp(1 << 20).await, Start::default(), NEVER);
    let sent = vec![b'x'; 600_000];
    bed.server.write_all(&sent).await.expect("there is room");
    drop(bed.server);
    bed.client.readable().await.expect("something comes");
    let mut got = Vec::new();
    bed.client.read_to_end(&mut got).await.expect("all comes");
    assert_eq!(got, sent);
    drop(bed.client);
    assert_eq!(bed.ended.await.expect("no panic").expect("no error"), Ended::Closed);
}

#[tokio::test]
async fn a_client_that_has_hung_up_ends_it_at_once() {
    let mut bed = bed(unix(), tcp(1 << 20).await, Start::default(), NEVER);
    bed.server.write_all(&vec![b'x'; 600_000]).await.expect("there is room");
    bed.client.readable().await.expect("something comes");
    // Its server has not closed, and does not notice.
    drop(bed.client);
    assert!(bed.ended.await.expect("no panic").is_err());
}

#[tokio::test]
async fn a_client_that_says_nothing_more_and_reads_nothing_has_its_time() {
    let mut bed = bed(unix(), tcp(1 << 20).await, Start::default(), SOON);
    bed.client.shutdown().await.expect("half of it closes");
    assert_eq!(bed.server.read(&mut [0; 9]).await.expect("it is passed on"), 0);
    bed.server.write_all(&vec![b'x'; 600_000]).await.expect("there is room");
    drop(bed.server);
    assert_eq!(bed.ended.await.expect("no panic").expect("no error"), Ended::Late);
}

#[tokio::test]
async fn garbage_passes_an_observer_as_it_is() {
    // Of a length that no packet announces.
    let noise: Vec<u8> =
        (0u32..200_000).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for start in [Start::default(), observed()] {
        let observes = start.observe;
        let mut bed = bed(unix(), unix(), start, NEVER);
        for _ in 0..2 {
            assert!(through(&mut bed.client, &mut bed.server, &noise).await == noise);
            assert!(through(&mut bed.server, &mut bed.client, &noise).await == noise);
        }
        assert_eq!(bed.forwarded().observed.stopped.get(), u64::from(observes));
        assert_eq!(bed.forwarded().up.get(), 2 * noise.len() as u64);
        drop((bed.client, bed.server));
        let _ = bed.ended.await.expect("no panic");
    }
}

#[tokio::test]
async fn commands_are_counted_where_that_is_asked_for() {
    let ok = Message::new(1, &[0, 0, 0, 2, 0, 0, 0]).framed;
    let ping = Message::new(0, &[CommandCode::PING.0]).framed;
    let trigger = Message::new(0, b"\x03SELECT 'go'").framed;
    for observe in [false, true] {
        let start = Start { first: trigger.clone(), observe, ..observed() };
        let mut bed = bed(unix(), unix(), start, NEVER);
        let mut first = vec![0; trigger.len()];
        bed.server.read_exact(&mut first).await.expect("the trigger");
        assert_eq!(first, trigger);
        through(&mut bed.server, &mut bed.client, &ok).await;
        for _ in 0..3 {
            through(&mut bed.client, &mut bed.server, &ping).await;
            through(&mut bed.server, &mut bed.client, &ok).await;
        }
        let counts = &bed.forwarded().observed;
        let seen = [CommandCode::QUERY, CommandCode::PING].map(|code| counts.seen(code));
        assert_eq!(seen, if observe { [1, 3] } else { [0, 0] });
        assert_eq!(counts.stopped.get(), 0);
    }
}

#[tokio::test]
async fn the_last_bytes_of_a_client_whose_ids_are_translated_arrive() {
    let start = Start { ids: vec![(1 << 31, 3)], ..observed() };
    let mut bed = bed(unix(), unix(), start, NEVER);
    let mut command = bytes::BytesMut::new();
    put_packet(&mut command, 0, &[CommandCode::STMT_RESET.0, 0, 0, 0, 0x80]);
    let cut = [&command[..], &command[..6]].concat();
    bed.client.write_all(&cut).await.expect("it is open");
    bed.client.shutdown().await.expect("half of it closes");
    let mut got = Vec::new();
    bed.server.read_to_end(&mut got).await.expect("it is passed on");
    assert_eq!(got, [&command[..5], &[3, 0, 0, 0], &command[..6]].concat());
}
