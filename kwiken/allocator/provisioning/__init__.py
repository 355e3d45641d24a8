"""Provisioning: what to reserve, what to rent by the hour or on spot, and how long an idle node is kept."""

from __future__ import annotations

from kwiken.allocator.provisioning.document import (
    ChosenOffer as ChosenOffer,
    Provision as Provision,
    ProvisionStudy as ProvisionStudy,
    StrategyCost as StrategyCost,
    study_provision as study_provision,
)
from kwiken.allocator.provisioning.interruptions import (
    Recording as Recording,
    recording_from_json as recording_from_json,
)
from kwiken.allocator.provisioning.load_curve import (
    LoadCurve as LoadCurve,
    curve_of as curve_of,
    load_from_text as load_from_text,
)
from kwiken.allocator.provisioning.offers import (
    NodeOffer as NodeOffer,
    PriceList as PriceList,
    Terms as Terms,
    prices_from_toml as prices_from_toml,
)
from kwiken.allocator.provisioning.payment import Payment as Payment
from kwiken.allocator.provisioning.pricing import (
    Commitment as Commitment,
    break_even_weeks as break_even_weeks,
    sustained_use_factor as sustained_use_factor,
)
from kwiken.allocator.provisioning.renting import (
    NodeOrder as NodeOrder,
    NodeRenter as NodeRenter,
    NodeReturn as NodeReturn,
    Rental as Rental,
    RentalState as RentalState,
)
from kwiken.allocator.provisioning.retention import keep_idle_s as keep_idle_s
from kwiken.allocator.provisioning.strategies import (
    HINDSIGHT as HINDSIGHT,
    HINDSIGHT_SPOT as HINDSIGHT_SPOT,
    Market as Market,
    ProvisioningSettings as ProvisioningSettings,
    market as market,
)
