use crate::tests;

tests!(migrations: );
