//! Every way in which a store of this test can be broken.

macro_rules! defects {
    ($($name:ident),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Defect {
            $($name),+
        }

        impl Defect {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

defects! {
    // taking
    ForgetsToMove,
    MovesOneMore,
    NewestFirst,
    UnsortedAnswer,
    TiesByLanguage,
    TiesAtRandom,
    NotDueAtItsInstant,
    DueEarly,
    SignedLimit,
    NoLimit,
    RefusesPastRetry,
    CountsChangedRowsOnly,
    DeletesWhenTaken,
    StarvesFresh,
    StampsSentAt,
    TakesByHalf,
    // recording
    CountsKnownTickets,
    Overwrites,
    RenewsTaken,
    LastOfEqualsWins,
    RefusesEquals,
    RemembersDeleted,
    RecordsByHalf,
    RecordsUpToABadInstant,
    TokensByPosition,
    NothingAfterAFailure,
    AcceptedAreDueAtOnce,
    // values
    FoldsCase,
    CutsTokens,
    TicketsAsNumbers,
    OwnersByHalf,
    // deleting
    CountsWhatWasAsked,
    CountsRepetitions,
    DeletesTakenOnly,
    DeletesAll,
    DeletesByHalf,
    // purging
    PurgesThatInstant,
    PurgesNewestFirst,
    PurgesWithoutBound,
    PurgesDueOnly,
    SignedPurge,
    NeverPurges,
    // erasing
    ErasesUntakenOnly,
    ErasesAll,
    ErasesAThousand,
    NilIsEverybody,
    // instants
    RoundsUp,
    ComparesNanoseconds,
    Milliseconds,
    EndsIn2038,
    ClampsInstants,
    LeapIsNext,
    // sizes, handles, many callers
    CountsIn16Bits,
    HidesUncommitted,
    TakesTwice,
    RecordsTwice,
    Resurrects,
    // futures that are dropped
    StopsInBetween,
    TakesOutAndPutsBack,
    WorksUnpolled,
    // failures
    EmptyWhenBroken,
    RetriesForEver,
    StuckOnDamage,
    HidesDamage,
    StaysCut,
    WaitsForLocks,
    PurgesLocked,
    SkipsLockedErasures,
    LosesAnswers,
}
