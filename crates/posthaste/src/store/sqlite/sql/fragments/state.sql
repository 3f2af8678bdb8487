v.subscription, v.status, v.attempts, coalesce(v.next_attempt_at, e.available_at, e.created_at) as next_attempt_at,
  v.parked, v.locked_by, v.locked_until, v.last_error, v.edited_payload, v.history
