use crate::tests;

tests!(failover: );
