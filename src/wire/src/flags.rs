//! One shape for the two sets of flags: capabilities and server status.

macro_rules! flags {
    ($(#[$about:meta])* $name:ident($int:ty) { $($(#[$doc:meta])* $flag:ident = $value:expr;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$doc])* pub const $flag: Self = Self($value);)*

            /// No flag.
            pub const EMPTY: Self = Self(0);

            const NAMES: &'static [(&'static str, Self)] = &[$((stringify!($flag), Self::$flag)),*];

            /// The flags as the wire has them.
            #[must_use]
            pub const fn bits(self) -> $int {
                self.0
            }

            /// Whether no flag is set.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Whether all flags of `other` are set here.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any flag of `other` is set here.
            #[must_use]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The flags of either.
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The flags of both.
            #[must_use]
            pub const fn intersection(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            /// These flags without those of `other`.
            #[must_use]
            pub const fn difference(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl std::ops::BitAnd for $name {
            type Output = Self;
            fn bitand(self, other: Self) -> Self {
                self.intersection(other)
            }
        }

        impl std::ops::Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                self.difference(other)
            }
        }

        /// The names of the flags that are set, and in hexadecimal those that have none.
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut rest = *self;
                let mut list = f.debug_set();
                for &(name, flag) in Self::NAMES {
                    if self.contains(flag) {
                        list.entry(&format_args!("{name}"));
                        rest = rest - flag;
                    }
                }
                if !rest.is_empty() {
                    list.entry(&format_args!("{:#x}", rest.0));
                }
                list.finish()
            }
        }
    };
}

pub(crate) use flags;

#[cfg(test)]
mod tests {
    use crate::{Capabilities, Status};

    #[test]
    fn debug_lists_names_and_what_has_none() {
        let caps = Capabilities::PROTOCOL_41 | Capabilities::BULK_UNIT_RESULTS;
        assert_eq!(format!("{caps:?}"), "{PROTOCOL_41, BULK_UNIT_RESULTS}");
        assert_eq!(format!("{:?}", Status(0x0006)), "{AUTOCOMMIT, 0x4}");
    }

    #[test]
    fn set_arithmetic() {
        let both = Status::IN_TRANS | Status::AUTOCOMMIT;
        assert!(both.contains(Status::IN_TRANS) && !Status::IN_TRANS.contains(both));
        assert!(Status::IN_TRANS.intersects(both));
        assert_eq!(both - Status::IN_TRANS, Status::AUTOCOMMIT);
        assert_eq!(both & Status::IN_TRANS, Status::IN_TRANS);
    }
}
