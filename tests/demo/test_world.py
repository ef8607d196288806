"""The invented valley."""

from collections import Counter

from demo.world import ATTRIBUTES, BEASTS, BOOKS, PEOPLE, TOWNS, build_world


def test_the_world_is_always_the_same() -> None:
    """Building the world twice gives equal facts and sums."""
    assert build_world() == build_world()


def test_every_entity_has_one_value_for_each_attribute() -> None:
    """Every person, town and beast has exactly one fact per attribute of its subject."""
    counts = Counter((fact.entity, fact.attribute) for fact in build_world().facts)
    entities = {"people": PEOPLE, "places": TOWNS, "nature": BEASTS, "numbers": BOOKS}
    expected = {(e, a) for subject, names in entities.items() for e in names for a in ATTRIBUTES[subject]}
    assert set(counts) == expected
    assert set(counts.values()) == {1}


def test_a_fact_is_asked_or_only_told() -> None:
    """No fact is in both parts of the world, and no sum both shown and kept."""
    world = build_world()
    assert not set(world.asked) & set(world.only_told)
    assert not set(world.sums_shown) & set(world.sums_kept)


def test_a_kept_sum_is_shown_the_other_way_round() -> None:
    """The swapped pair of every kept sum is in the training text, so that it can be answered at all."""
    world = build_world()
    assert {(b, a) for a, b in world.sums_kept} <= set(world.sums_shown)
