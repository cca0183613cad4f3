use crate::tests;

tests!(cancel: );
