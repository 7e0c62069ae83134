//! One frame there and back, with contexts that are kept.

use bytes::BytesMut;
use divan::{Bencher, black_box, counter::BytesCount};
use wire::{
    Capabilities,
    compress::{Codec, Contexts, End, Method},
    packet::put_packet,
};

fn main() {
    divan::main();
}

const SIZES: [usize; 2] = [200, 64 * 1024];

/// Rows of a text result: digits and words, some of them again and again.
fn packets(len: usize) -> BytesMut {
    let mut out = BytesMut::new();
    let mut seed = 1_u32;
    while out.len() < len {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let row = format!("\u{a}{seed:010}\u{9}name-{:04}\u{5}ready", seed >> 22);
        put_packet(&mut out, 1, row.as_bytes());
    }
    out
}

fn compress(bencher: Bencher<'_, '_>, method: Method, len: usize) {
    let plain = packets(len);
    let (mut contexts, mut out) = (Contexts::new(), Vec::new());
    let mut codec = Codec::new(method, End::Server(Capabilities::EMPTY));
    bencher.counter(BytesCount::new(plain.len())).bench_local(|| {
        out.clear();
        codec.encode(&mut contexts, black_box(&plain), &mut out).expect("memory");
        out.len()
    });
}

fn uncompress(bencher: Bencher<'_, '_>, method: Method, len: usize) {
    let plain = packets(len);
    let (mut contexts, mut frame) = (Contexts::new(), Vec::new());
    Codec::new(method, End::Server(Capabilities::EMPTY))
        .encode(&mut contexts, &plain, &mut frame)
        .expect("memory");
    bencher.counter(BytesCount::new(plain.len())).bench_local(|| {
        let mut input = BytesMut::from(black_box(&frame[..]));
        Codec::new(method, End::Client(Capabilities::EMPTY)).decode(&mut contexts, &mut input)
    });
}

#[divan::bench(args = SIZES)]
fn zlib_1(bencher: Bencher<'_, '_>, len: usize) {
    compress(bencher, Method::Zlib { level: 1 }, len);
}

#[divan::bench(args = SIZES)]
fn zlib_6(bencher: Bencher<'_, '_>, len: usize) {
    compress(bencher, Method::ZLIB, len);
}

#[divan::bench(args = SIZES)]
fn zstd_3(bencher: Bencher<'_, '_>, len: usize) {
    compress(bencher, Method::ZSTD, len);
}

#[divan::bench(args = SIZES)]
fn zstd_9(bencher: Bencher<'_, '_>, len: usize) {
    compress(bencher, Method::Zstd { level: 9 }, len);
}

/// The most that a client can ask for.
#[divan::bench(args = SIZES)]
fn zstd_22(bencher: Bencher<'_, '_>, len: usize) {
    compress(bencher, Method::Zstd { level: 22 }, len);
}

/// As it was without kept contexts.
#[divan::bench(args = SIZES)]
fn zlib_6_anew(bencher: Bencher<'_, '_>, len: usize) {
    let (plain, mut out) = (packets(len), Vec::new());
    let mut codec = Codec::new(Method::ZLIB, End::Server(Capabilities::EMPTY));
    bencher.bench_local(|| {
        out.clear();
        codec.encode(&mut Contexts::new(), black_box(&plain), &mut out).expect("memory");
    });
}

#[divan::bench(args = SIZES)]
fn unzlib(bencher: Bencher<'_, '_>, len: usize) {
    uncompress(bencher, Method::ZLIB, len);
}

#[divan::bench(args = SIZES)]
fn unzstd(bencher: Bencher<'_, '_>, len: usize) {
    uncompress(bencher, Method::ZSTD, len);
}
