//! The shortest part of a script that still fails.

use super::script::Script;

/// How often a script is tried at most.
const TRIES: usize = 400;

/// Leaves steps out of `script` for as long as `fails` says that the rest fails as well.
pub fn shrink(script: &Script, mut fails: impl FnMut(&Script) -> bool) -> Script {
    let mut best = script.clone();
    let mut tries = 0;
    let mut size = best.steps.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut shorter = false;
        while at < best.steps.len() {
            let mut candidate = best.clone();
            candidate.steps.drain(at..(at + size).min(best.steps.len()));
            tries += 1;
            if tries > TRIES {
                return best;
            }
            if fails(&candidate) {
                best = candidate;
                shorter = true;
            } else {
                at += size;
            }
        }
        if size == 1 && !shorter {
            return best;
        }
        size = size.div_ceil(2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::shrink;
    use crate::twin::script::{Script, Step};

    #[test]
    fn what_does_not_matter_is_left_out() {
        let steps = (0..50).map(|n| Step::Query(n.to_string())).collect();
        let needed = [Step::Query("7".into()), Step::Query("31".into())];
        let short = shrink(&Script { login: 0, steps }, |candidate| {
            needed.iter().all(|step| candidate.steps.contains(step))
        });
        assert_eq!(short.steps, needed);
    }
}
