import numpy as np
import pytest

from stayput.data import from_arrays
from stayput.data.federated_data import Examples
from stayput.data.partitions import ByKey
from stayput.errors import DataUnavailable, InvalidSetting, UnknownName

ROLES = from_arrays([0, 1, 2, 3], [0, 0, 0, 0], {"role": ["ROMEO", "JULIET", "ROMEO", "NURSE"], "act": [10, 9, 9, 10]})


def test_clients_are_the_keys_values_in_their_order():
    roles = ROLES.partition(ByKey(key="role"))
    assert list(roles.assignment.client_ids) == ["JULIET", "NURSE", "ROMEO"]
    assert [roles.rows(client).tolist() for client in range(3)] == [[1], [3], [0, 2]]
    assert list(ROLES.partition(ByKey(key="act")).assignment.client_ids) == ["9", "10"]


def test_an_unknown_key_lists_the_known_ones():
    with pytest.raises(UnknownName, match=r"key='rôle': unknown; did you mean 'role'\? known: act, role"):
        ROLES.partition(ByKey(key="rôle"))
    with pytest.raises(UnknownName, match=r"key='writer': unknown; known: none, these examples have no keys"):
        from_arrays([1], [1]).partition(ByKey())


def test_a_key_that_could_be_had_says_how():
    examples = Examples(np.zeros(1), np.zeros(1), absent_keys={"writer": "needs a file (bring it)"})
    with pytest.raises(DataUnavailable, match=r"key='writer': needs a file \(bring it\)"):
        examples.partition(ByKey())


def test_a_key_of_several_columns_is_refused():
    examples = Examples(np.zeros(2), np.zeros(2), {"writer": np.zeros((2, 2))})
    with pytest.raises(InvalidSetting, match=r"key='writer' of shape \(2, 2\): must be one value for each example"):
        examples.partition(ByKey())


def test_no_name_is_refused():
    with pytest.raises(InvalidSetting, match=r"key='': must be the name of a key \(such as 'writer'\)"):
        ByKey(key="")
