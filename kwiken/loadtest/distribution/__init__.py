"""Open-loop load under Locust's own command: options, division over processes, counts and the common end."""

from __future__ import annotations

from kwiken.loadtest.distribution.hooks import hook_into_locust as hook_into_locust
from kwiken.loadtest.distribution.options import with_options as with_options
from kwiken.loadtest.distribution.session import Session as Session
from kwiken.loadtest.distribution.share import Share as Share, one_sender_each as one_sender_each
