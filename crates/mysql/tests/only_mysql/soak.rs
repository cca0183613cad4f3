use crate::tests;

tests!(soak: );
