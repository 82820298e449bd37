//! Which columns a file has, and of which types: said by the job, or found in the first records.

use super::{
    Fault, bare_line,
    column::{self, Type},
    csv, line_end,
    scan::{blank, nested_end, number_end, text_end, unescaped, value_end, word_end},
};

/// How many records are looked at.
pub(crate) const INFER_RECORDS_MAX: usize = 10_000;

/// How many bytes of them.
pub(crate) const INFER_BYTES_MAX: usize = 4 << 20;

/// The columns that are read, in this order.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Plan {
    /// With their types.
    pub(crate) columns: Vec<(String, Type)>,
    /// Whether a record must not have other keys: nobody has said which are wanted, so all are.
    pub(crate) is_closed: bool,
}

/// What the job says about columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Which ones, if not all.
    pub(crate) columns: Vec<String>,
    /// The types of some.
    pub(crate) types: Vec<(String, Type)>,
}

impl Said {
    fn kind(&self, name: &str) -> Option<Type> {
        self.types.iter().find(|(known, _)| known == name).map(|(_, kind)| *kind)
    }

    /// The plan, if the job says everything.
    pub(crate) fn plan(&self) -> Option<Plan> {
        if self.columns.is_empty() {
            return None;
        }
        let columns = self.columns.iter().map(|name| Some((name.clone(), self.kind(name)?)));
        Some(Plan { columns: columns.collect::<Option<_>>()?, is_closed: false })
    }

    /// The plan, with what was found for what the job does not say.
    pub(crate) fn plan_with(&self, found: &Found) -> Result<Plan, String> {
        let found_kind = |name: &str| {
            let seen = found.columns.iter().find(|(known, _)| known == name);
            seen.map(|(_, seen)| seen.kind())
        };
        if self.columns.is_empty() {
            let mut columns: Vec<(String, Type)> = Vec::new();
            for (name, seen) in &found.columns {
                columns.push((name.clone(), self.kind(name).unwrap_or(seen.kind())));
            }
            let more = self.types.iter().filter(|(name, _)| found_kind(name).is_none());
            columns.extend(more.cloned());
            return Ok(Plan { columns, is_closed: true });
        }
        let columns = self.columns.iter().map(|name| {
            let kind = self.kind(name).or_else(|| found_kind(name));
            kind.map(|kind| (name.clone(), kind)).ok_or_else(|| {
                let names: Vec<_> = found.columns.iter().map(|(name, _)| name.as_str()).collect();
                format!(
                    "there is no column {name} in the first records; there are {}. If it comes \
                     later, write schema = {{ {name} = \"text\" }} with its type",
                    names.join(", ")
                )
            })
        });
        Ok(Plan { columns: columns.collect::<Result<_, _>>()?, is_closed: false })
    }
}

/// What was seen in a column so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Nothing,
    Is(Type),
}

impl Seen {
    fn and(self, kind: Type) -> Seen {
        match (self, kind) {
            (Seen::Nothing, kind) => Seen::Is(kind),
            (Seen::Is(seen), kind) if seen == kind => self,
            (Seen::Is(Type::Int | Type::Float), Type::Int | Type::Float) => Seen::Is(Type::Float),
            (Seen::Is(_), _) => Seen::Is(Type::Text),
        }
    }

    fn kind(self) -> Type {
        match self {
            Seen::Nothing => Type::Text,
            Seen::Is(kind) => kind,
        }
    }
}

/// The columns that were found, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    columns: Vec<(String, Seen)>,
    n_records: usize,
}

impl Found {
    /// Whether records enough were seen.
    pub(crate) fn is_enough(&self) -> bool {
        self.n_records >= INFER_RECORDS_MAX
    }

    /// Whether any record was seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.n_records == 0
    }

    fn see(&mut self, name: &str, kind: Option<Type>) {
        let place = self.columns.iter().position(|(known, _)| known == name);
        let place = place.unwrap_or_else(|| {
            self.columns.push((name.into(), Seen::Nothing));
            self.columns.len() - 1
        });
        if let Some(kind) = kind {
            self.columns[place].1 = self.columns[place].1.and(kind);
        }
    }

    /// Looks at whole NDJSON records from the front of `bytes`.
    pub(crate) fn ndjson(&mut self, bytes: &[u8], is_last: bool) -> Result<(), Fault> {
        let mut at = 0;
        while !self.is_enough()
            && let Some(end) = line_end(&bytes[at..], is_last)
        {
            let line = bare_line(&bytes[at..at + end]);
            self.object(line).map_err(|fault| Fault { at: at + fault.at, ..fault })?;
            at += end;
        }
        Ok(())
    }

    fn object(&mut self, line: &[u8]) -> Result<(), Fault> {
        let mut at = blank(line, 0);
        match line.get(at) {
            None => return Ok(()),
            Some(b'{') => at = blank(line, at + 1),
            Some(_) => return Err(Fault::new(at, "not a JSON object")),
        }
        self.n_records += 1;
        while line.get(at) == Some(&b'"') {
            let (end, _) = text_end(line, at + 1)?;
            let name = unescaped(line, at + 1, end)?;
            at = blank(line, end + 1);
            if line.get(at) != Some(&b':') {
                return Err(Fault::new(at, "a key that is not followed by a colon"));
            }
            at = blank(line, at + 1);
            let (kind, end) = json_type(line, at)?;
            self.see(&name, kind);
            at = blank(line, end);
            if line.get(at) == Some(&b',') {
                at = blank(line, at + 1);
            }
        }
        // The rest is for the reader, which is strict.
        Ok(())
    }

    /// Looks at whole CSV records from the front of `bytes`, behind the header.
    pub(crate) fn csv(
        &mut self,
        bytes: &[u8],
        is_last: bool,
        header: &[String],
        delimiter: u8,
    ) -> Result<(), Fault> {
        for name in header {
            self.see(name, None);
        }
        let mut at = 0;
        while !self.is_enough() && at < bytes.len() {
            let record = csv::record(&bytes[at..], delimiter, is_last);
            let record = record.map_err(|fault| Fault { at: at + fault.at, ..fault })?;
            let Some((fields, end)) = record else { break };
            at += end;
            if fields == [None] {
                continue;
            }
            self.n_records += 1;
            for (name, text) in header.iter().zip(&fields) {
                self.see(name, text.as_deref().map(csv_type));
            }
        }
        Ok(())
    }
}

/// The type of the value at `at`, none if it is null, and where it ends.
fn json_type(line: &[u8], at: usize) -> Result<(Option<Type>, usize), Fault> {
    Ok(match line.get(at) {
        Some(b'-' | b'0'..=b'9') => {
            let (end, is_whole) = number_end(line, at)?;
            let kind = match is_whole {
                false => Type::Float,
                true if column::int(&line[at..end]).is_some() => Type::Int,
                // Its digits are kept, rather than half of them.
                true => Type::Text,
            };
            (Some(kind), end)
        }
        Some(b't' | b'f') => (Some(Type::Bool), word_end(line, at)?),
        Some(b'n') => (None, word_end(line, at)?),
        Some(b'{' | b'[') => (Some(Type::Text), nested_end(line, at)?),
        Some(_) | None => (Some(Type::Text), value_end(line, at)?),
    })
}

/// The narrowest type that a field of CSV can have.
fn csv_type(text: &str) -> Type {
    let bytes = text.as_bytes();
    let has_zero_first = {
        let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
        digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit()
    };
    // Postcodes and phone numbers are texts, and so is a number that would lose digits.
    if has_zero_first || bytes.first() == Some(&b'+') {
        return Type::Text;
    }
    if column::int(bytes).is_some() {
        return Type::Int;
    }
    let is_whole = bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'-'));
    let begins_as_number = matches!(bytes.first(), Some(b'0'..=b'9' | b'-' | b'.'));
    if !is_whole && begins_as_number && column::float(bytes).is_some() {
        return Type::Float;
    }
    if column::truth(bytes).is_some() { Type::Bool } else { Type::Text }
}
