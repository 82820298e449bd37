//! Ids as text: decimal, and two shorter forms that sort as the ids do.

use std::fmt;

use crate::layout::Id;

/// A way to write an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// As a decimal number. Does not sort as text.
    Decimal,
    /// Thirteen digits of Crockford's base 32: no letters that are taken for others.
    Base32,
    /// Eleven digits of 0–9, A–Z, a–z.
    Base62,
}

const DIGITS_32: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const DIGITS_62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

impl Form {
    fn digits(self) -> (&'static [u8], usize) {
        match self {
            Form::Decimal => (&DIGITS_32[..10], 1),
            Form::Base32 => (DIGITS_32, 13),
            Form::Base62 => (DIGITS_62, 11),
        }
    }

    /// Writes `id`.
    pub fn write(self, id: Id) -> String {
        let (digits, width) = self.digits();
        let (mut rest, mut text) = (id.bits(), Vec::with_capacity(20));
        while rest > 0 || text.len() < width {
            text.push(digits[(rest % digits.len() as u64) as usize] as char);
            rest /= digits.len() as u64;
        }
        text.iter().rev().collect()
    }

    /// Reads what [`write`](Form::write) wrote; base 32 also in small letters.
    pub fn read(self, text: &str) -> Result<Id, NoId> {
        let (digits, _) = self.digits();
        let mut bits = (!text.is_empty()).then_some(0_u64).ok_or(NoId::Empty)?;
        for it in text.chars() {
            let it = if self == Form::Base32 { it.to_ascii_uppercase() } else { it };
            let digit = digits.iter().position(|digit| *digit as char == it);
            let digit = digit.ok_or(NoId::Digit(it))?;
            let more = bits.checked_mul(digits.len() as u64);
            bits = more.and_then(|more| more.checked_add(digit as u64)).ok_or(NoId::TooLarge)?;
        }
        Id::from_bits(bits).ok_or(NoId::TooLarge)
    }
}

/// A text that is no id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoId {
    /// Nothing is there.
    Empty,
    /// A character that is no digit of this form.
    Digit(char),
    /// More than 63 bits.
    TooLarge,
}

impl fmt::Display for NoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoId::Empty => f.write_str("an id has at least one digit"),
            NoId::Digit(it) => write!(f, "{it:?} is no digit of an id in this form"),
            NoId::TooLarge => f.write_str("an id has 63 bits, this number has more"),
        }
    }
}

impl std::error::Error for NoId {}
