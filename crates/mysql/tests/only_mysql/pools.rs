use crate::tests;

tests!(pools: );
