-- Removes a subscription; the trigger subscription_gone takes along everything of it. Takes the write lock.
delete from posthaste_subscriptions where id = ?1
