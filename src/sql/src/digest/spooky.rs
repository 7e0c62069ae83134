//! SpookyHash V2 by Bob Jenkins (public domain, 2012), 64 bits with seed 0: what ProxySQL calls a
//! digest. Not for anything that has to withstand an attacker.

/// Begins every part of the state that no seed does.
const CONST: u64 = 0xDEAD_BEEF_DEAD_BEEF;
/// From so many bytes on the long form is used.
const LONG: usize = 192;
/// Words of the long form's state, and of a block of input.
const WORDS: usize = 12;
/// Bytes of a block.
const BLOCK: usize = WORDS * 8;

/// The hash of `text`.
pub(super) fn hash64(text: &[u8]) -> u64 {
    if text.len() < LONG { short(text) } else { long(text) }
}

fn short(text: &[u8]) -> u64 {
    let [mut a, mut b, mut c, mut d] = [0, 0, CONST, CONST];
    let mut rest = text;
    while let Some((block, behind)) = rest.split_first_chunk::<32>() {
        c = word(block, 0).wrapping_add(c);
        d = word(block, 1).wrapping_add(d);
        short_mix(&mut a, &mut b, &mut c, &mut d);
        a = word(block, 2).wrapping_add(a);
        b = word(block, 3).wrapping_add(b);
        rest = behind;
    }
    if let Some((block, behind)) = rest.split_first_chunk::<16>() {
        c = word(block, 0).wrapping_add(c);
        d = word(block, 1).wrapping_add(d);
        short_mix(&mut a, &mut b, &mut c, &mut d);
        rest = behind;
    }
    // The last 0 to 15 bytes, and the length.
    d = d.wrapping_add((text.len() as u64) << 56);
    if rest.is_empty() {
        c = c.wrapping_add(CONST);
        d = d.wrapping_add(CONST);
    } else {
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        c = c.wrapping_add(word(&last, 0));
        d = d.wrapping_add(word(&last, 1));
    }
    short_end(a, b, c, d)
}

fn short_mix(a: &mut u64, b: &mut u64, c: &mut u64, d: &mut u64) {
    const ROTATIONS: [[u32; 4]; 3] = [[50, 52, 30, 41], [54, 48, 38, 37], [62, 34, 5, 36]];
    for [first, second, third, fourth] in ROTATIONS {
        *c = c.rotate_left(first).wrapping_add(*d);
        *a ^= *c;
        *d = d.rotate_left(second).wrapping_add(*a);
        *b ^= *d;
        *a = a.rotate_left(third).wrapping_add(*b);
        *c ^= *a;
        *b = b.rotate_left(fourth).wrapping_add(*c);
        *d ^= *b;
    }
}

fn short_end(a: u64, b: u64, c: u64, d: u64) -> u64 {
    const ROTATIONS: [u32; 11] = [15, 52, 26, 51, 28, 9, 47, 54, 32, 25, 63];
    let mut state = [a, b, c, d];
    for (at, rotation) in ROTATIONS.into_iter().enumerate() {
        let (from, to) = ((at + 2) % 4, (at + 3) % 4);
        state[to] ^= state[from];
        state[from] = state[from].rotate_left(rotation);
        state[to] = state[to].wrapping_add(state[from]);
    }
    state[0]
}

fn long(text: &[u8]) -> u64 {
    let mut state = [0, 0, CONST, 0, 0, CONST, 0, 0, CONST, 0, 0, CONST];
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    for block in blocks {
        mix(&mut state, block);
    }
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    last[BLOCK - 1] = u8::try_from(rest.len()).expect("less than a block");
    for (at, sum) in state.iter_mut().enumerate() {
        *sum = sum.wrapping_add(word(&last, at));
    }
    for _ in 0..3 {
        end_part(&mut state);
    }
    state[0]
}

fn mix(state: &mut [u64; WORDS], block: &[u8; BLOCK]) {
    const ROTATIONS: [u32; WORDS] = [11, 32, 43, 31, 17, 28, 39, 57, 55, 54, 22, 46];
    for (at, rotation) in ROTATIONS.into_iter().enumerate() {
        let other = |by: usize| (at + by) % WORDS;
        state[at] = state[at].wrapping_add(word(block, at));
        state[other(2)] ^= state[other(10)];
        state[other(11)] ^= state[at];
        state[at] = state[at].rotate_left(rotation);
        state[other(11)] = state[other(11)].wrapping_add(state[other(1)]);
    }
}

fn end_part(state: &mut [u64; WORDS]) {
    const ROTATIONS: [u32; WORDS] = [44, 15, 34, 21, 38, 33, 10, 13, 38, 53, 42, 54];
    for (at, rotation) in ROTATIONS.into_iter().enumerate() {
        let other = |by: usize| (at + by) % WORDS;
        state[other(11)] = state[other(11)].wrapping_add(state[other(1)]);
        state[other(2)] ^= state[other(11)];
        state[other(1)] = state[other(1)].rotate_left(rotation);
    }
}

/// The little-endian word at this place, in words.
fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at * 8..).and_then(<[u8]>::first_chunk);
    u64::from_le_bytes(*word.expect("callers give whole words"))
}

#[cfg(test)]
mod tests {
    use super::hash64;

    /// Made with another implementation (the Python package spookyhash).
    #[test]
    fn hashes_are_those_of_others() {
        for (length, hash) in [
            (0, 0x2327_06FC_6BF5_0919),
            (1, 0x6501_E369_9358_5923),
            (8, 0xE657_76A4_7A41_FFD0),
            (15, 0x6D8E_DF9A_E3EB_F60E),
            (16, 0x4F5B_E33C_63FD_8A0E),
            (31, 0x0438_7E89_564B_4062),
            (32, 0xF09A_ABCC_F795_6DD8),
            (33, 0xBC49_F163_C89B_0463),
            (63, 0x8985_97EB_2E10_3E6B),
            (191, 0x63B3_3A9A_6D58_AC4A),
            (192, 0x14ED_E802_6C28_E9FC),
            (193, 0x0B7B_4D95_61F5_60B7),
            (200, 0x0B9E_2E0E_0312_AD12),
            (287, 0xEE91_D559_C36C_7B7A),
            (288, 0xEA34_9CA9_E78D_1587),
            (289, 0xAE99_8803_F68A_D6E1),
            (400, 0x9D82_9774_764F_6706),
        ] {
            let text: Vec<u8> = (0..length).map(|at| ((at * 7 + length) & 255) as u8).collect();
            assert_eq!(hash64(&text), hash, "{length} bytes");
        }
    }
}
