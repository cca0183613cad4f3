/// What goes wrong with one request; see [`FakeExpo::then`](crate::FakeExpo::then).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FakeFault {
    /// Nothing is accepted; this is the answer.
    Answer {
        /// Its status.
        status: u16,
        /// Header lines, each with its line break.
        headers: String,
        /// Its body.
        body: String,
    },
    /// What was sent is accepted, and then this is the answer, such as 504.
    AcceptThen {
        /// Its status.
        status: u16,
        /// Its body.
        body: String,
    },
    /// What was sent is accepted, and these errors stand beside its tickets.
    ErrorsBeside(String),
    /// What was sent is accepted; the answer is cut off in its middle.
    Cut,
    /// What was sent is accepted; the connection is closed without an answer.
    Close,
    /// What was sent is accepted; no answer ever comes.
    Silence,
    /// What was sent is accepted; the answer never ends.
    Endless,
    /// Nothing is accepted; the answer is a small one that grows a thousandfold when
    /// it is unpacked.
    Bomb,
    /// The request is sent on to this address with status 307.
    Redirect(String),
    /// The tickets at these places are spoilt.
    Spoil(Vec<(usize, Spoil)>),
}

/// How a ticket is spoilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spoil {
    /// It is `ok` and has no id.
    NoId,
    /// Its id holds what no ticket can.
    ImpossibleId,
    /// Its id is that of the first ticket.
    SameId,
    /// It is no object.
    Null,
    /// It is an error of a code that nobody knows, with the token in it.
    UnheardError,
}

impl FakeFault {
    /// An answer of this status and body.
    pub fn answer(status: u16, body: impl Into<String>) -> Self {
        Self::Answer {
            status,
            headers: String::new(),
            body: body.into(),
        }
    }

    /// Status 429, with a `Retry-After` if there is a text for it.
    #[must_use]
    pub fn too_many_requests(retry_after: Option<&str>) -> Self {
        Self::Answer {
            status: 429,
            headers: retry_after
                .map_or_else(String::new, |after| format!("retry-after: {after}\r\n")),
            body: r#"{"errors":[{"code":"TOO_MANY_REQUESTS","message":"slow down"}]}"#.into(),
        }
    }
}
