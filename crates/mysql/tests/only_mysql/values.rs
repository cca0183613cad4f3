use crate::tests;

tests!(values: );
