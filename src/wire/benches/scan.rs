//! What the proxy does for every reply, and at every login.

use bytes::BytesMut;
use divan::{Bencher, black_box, counter::BytesCount};
use wire::{
    Capabilities, CommandCode, ReplyScanner, Scan, Status,
    answer::Answer,
    auth,
    column::Column,
    packet::{put_packet, take_message},
};

const CAPS: Capabilities = Capabilities::PROTOCOL_41.union(Capabilities::DEPRECATE_EOF);

fn main() {
    divan::main();
}

/// A text result of so many rows of 30 bytes on the wire.
fn result(rows: usize) -> Vec<u8> {
    let row = [Some("0123456789"), Some("abcdefghijklmn")];
    let columns = [Column::text("id"), Column::text("c")];
    let rows = std::iter::repeat_n(row, rows);
    Answer::new(CAPS, 1).text_rows(&columns, rows, Status::AUTOCOMMIT).finish().to_vec()
}

fn scan(scanner: &mut ReplyScanner, bytes: &[u8], chunk: usize) -> Scan {
    scanner.restart(CommandCode::QUERY);
    let mut last = Scan::More;
    for chunk in bytes.chunks(chunk) {
        last = scanner.scan(chunk).expect("the reply is well formed");
    }
    last
}

/// One row, two columns: the whole reply in one chunk.
#[divan::bench]
fn point_query(bencher: Bencher<'_, '_>) {
    let bytes = result(1);
    let mut scanner = ReplyScanner::new(CommandCode::QUERY, CAPS);
    bencher.bench_local(|| scan(&mut scanner, black_box(&bytes), usize::MAX));
}

/// 1 MiB of rows; a row is 30 bytes, so the time of one is this divided by 34,952.
#[divan::bench(args = [16 << 10, 64 << 10, 256 << 10])]
fn rows_of_30_bytes(bencher: Bencher<'_, '_>, chunk: usize) {
    let bytes = result((1 << 20) / 30);
    let mut scanner = ReplyScanner::new(CommandCode::QUERY, CAPS);
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| scan(&mut scanner, black_box(&bytes), chunk));
}

/// A command's way in: its message off the read buffer.
#[divan::bench]
fn take_a_command(bencher: Bencher<'_, '_>) {
    let mut framed = BytesMut::new();
    put_packet(&mut framed, 0, b"\x03SELECT c FROM sbtest1 WHERE id = 5012");
    bencher
        .with_inputs(|| framed.clone())
        .bench_local_values(|mut buf| take_message(&mut buf, 1 << 24));
}

/// Framing a payload.
#[divan::bench(args = [100, 64 << 10])]
fn frame(bencher: Bencher<'_, '_>, len: usize) {
    let payload = vec![b'x'; len];
    let mut out = BytesMut::with_capacity(len + 8);
    bencher.bench_local(|| {
        out.clear();
        put_packet(&mut out, 0, black_box(&payload))
    });
}

#[divan::bench]
fn scramble_native() -> auth::Secret {
    auth::native_password(black_box(b"a password"), &[7; 20])
}

#[divan::bench]
fn scramble_sha2() -> auth::Secret {
    auth::sha2_password(black_box(b"a password"), &[7; 20])
}
