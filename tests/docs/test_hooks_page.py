"""The page on hooks says what their specs say."""

from loopcore.hooks.specs import POLICY_HOOKS
from loopcore.testing.hooks.recorder import HOOKS
from tests.docs import hooks_page


def test_the_page_is_written_from_the_specs_as_they_are() -> None:
    assert hooks_page.PAGE.read_text(encoding="utf-8") == hooks_page.page(), "run: python -m tests.docs.hooks_page"


def test_every_hook_is_in_one_section() -> None:
    hooks = [hook.name for _, hooks in hooks_page.sections() for hook in hooks]
    assert sorted(hooks) == sorted((*HOOKS, *POLICY_HOOKS))


def test_a_note_belongs_to_a_section() -> None:
    assert set(hooks_page.NOTES) <= {title for title, _ in hooks_page.sections()}
