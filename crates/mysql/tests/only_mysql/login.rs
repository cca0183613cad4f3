use crate::tests;

tests!(login: );
