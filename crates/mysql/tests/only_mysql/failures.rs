use crate::tests;

tests!(failures: );
