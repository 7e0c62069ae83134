//! Random byte strings, and conversations with mistakes in them. The same seed gives the same noise.

use fastrand::Rng;

/// A source of noise.
#[derive(Debug)]
pub struct Noise {
    random: Rng,
    /// What mistakes are made in.
    recorded: Vec<Vec<u8>>,
}

impl Noise {
    /// Noise from `seed`; `recorded` are byte strings that mean something.
    pub fn new(seed: u64, recorded: Vec<Vec<u8>>) -> Self {
        Self { random: Rng::with_seed(seed), recorded }
    }

    /// One of: bytes without meaning; such bytes in a whole packet; a recorded string with mistakes.
    /// `sequence` is the id that the other side expects.
    pub fn string(&mut self, sequence: u8) -> Vec<u8> {
        match self.random.u8(..4) {
            0 => self.bytes(600),
            1 => {
                let payload = self.bytes(300);
                let mut packet = (payload.len() as u32).to_le_bytes();
                packet[3] = sequence;
                [&packet[..], &payload].concat()
            }
            _ => {
                let mut string = self.random.choice(&self.recorded).cloned().unwrap_or_default();
                for _ in 0..self.random.usize(1..4) {
                    self.mistake(&mut string);
                }
                string
            }
        }
    }

    /// The payload of a packet: a recorded one with mistakes, or any.
    pub fn payload(&mut self) -> Vec<u8> {
        if self.random.u8(..4) == 0 {
            return self.bytes(60);
        }
        let mut payload = self.random.choice(&self.recorded).cloned().unwrap_or_default();
        for _ in 0..self.random.usize(1..3) {
            self.mistake(&mut payload);
        }
        payload
    }

    /// One mistake in `string`.
    pub fn mistake(&mut self, string: &mut Vec<u8>) {
        if string.is_empty() {
            return;
        }
        let at = self.random.usize(..string.len());
        let end = (at + self.random.usize(1..40)).min(string.len());
        match self.random.u8(..8) {
            0 => string[at] ^= 1 << self.random.u8(..8),
            1 => string[at] = *self.random.choice(&EXTREMES).unwrap_or(&0),
            2 => string[at] = self.random.u8(..),
            3 => drop(string.drain(at..end)),
            4 => {
                let again = string[at..end].to_vec();
                string.splice(at..at, again);
            }
            5 => {
                let odd = self.bytes(20);
                string.splice(at..at, odd);
            }
            6 => string.truncate(at),
            // a packet's length
            _ => string[at.min(2)] = self.random.u8(..),
        }
    }

    fn bytes(&mut self, longest: usize) -> Vec<u8> {
        // short ones are more often looked at to their end
        let limit = self.random.usize(1..=longest);
        let length = self.random.usize(..=limit);
        (0..length).map(|_| self.random.u8(..)).collect()
    }
}

/// Borders of the protocol's lengths and markers.
const EXTREMES: [u8; 9] = [0x00, 0x01, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFE, 0xFF];
