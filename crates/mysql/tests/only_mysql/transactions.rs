use crate::tests;

tests!(transactions: );
