use crate::tests;

tests!(sizes: );
