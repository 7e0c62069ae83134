//! What a statement costs to look at.

use divan::{Bencher, black_box};
use sql::{
    DIGEST_LIMIT, Dialect, Lexer, comments, connection_ids, digest_into, may_name_connection_id,
    peek, statement,
};

const POINT: &[u8] = b"SELECT c FROM sbtest1 WHERE id=4711";
const COMMENTED: &[u8] = b"/* hostgroup=1 */ SELECT c FROM sbtest1 WHERE id=4711";
const LONG: &[u8] = b"SELECT o.id, o.created_at, c.name, SUM(i.price * i.amount) AS total FROM orders o \
JOIN customers c ON c.id = o.customer_id JOIN items i ON i.order_id = o.id WHERE o.state IN ('open', \
'paid') AND o.created_at > '2024-01-01' GROUP BY o.id ORDER BY total LIMIT 5";
const TEXTS: [&[u8]; 3] = [POINT, COMMENTED, LONG];

fn main() {
    assert_eq!(LONG.len(), 259);
    divan::main();
}

#[divan::bench(args = [0, 1, 2], sample_size = 1000)]
fn peeks(bencher: Bencher<'_, '_>, text: usize) {
    bencher.bench(|| peek(black_box(TEXTS[text])));
}

#[divan::bench(args = [0, 1, 2], sample_size = 1000)]
fn lexes(bencher: Bencher<'_, '_>, text: usize) {
    bencher.bench(|| Lexer::new(black_box(TEXTS[text]), Dialect::default()).count());
}

#[divan::bench(args = [0, 1, 2], sample_size = 1000)]
fn classifies(bencher: Bencher<'_, '_>, text: usize) {
    bencher.bench(|| statement(black_box(TEXTS[text]), Dialect::default()));
}

#[divan::bench(args = [0, 1, 2], sample_size = 1000)]
fn digests(bencher: Bencher<'_, '_>, text: usize) {
    let mut out = Vec::new();
    bencher.bench_local(|| {
        digest_into(black_box(TEXTS[text]), Dialect::default(), DIGEST_LIMIT, &mut out)
    });
}

#[divan::bench(args = [0, 1, 2], sample_size = 1000)]
fn rules_out_a_connection_id(bencher: Bencher<'_, '_>, text: usize) {
    bencher.bench(|| may_name_connection_id(black_box(TEXTS[text])));
}

#[divan::bench(sample_size = 1000)]
fn finds_a_connection_id(bencher: Bencher<'_, '_>) {
    bencher.bench(|| connection_ids(black_box(b"SELECT CONNECTION_ID()"), Dialect::default()));
}

/// The first and the last of these have no comment: at most 30 ns.
#[divan::bench(args = [0, 1, 2], sample_size = 1000)]
fn finds_comments(bencher: Bencher<'_, '_>, text: usize) {
    bencher.bench(|| comments(black_box(TEXTS[text]), Dialect::default()).count());
}
